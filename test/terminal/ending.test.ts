/** contract, "Events": a command that runs on ends in order, however its terminal goes away. */
import { describe, expect, it } from 'vitest'
import { untilEnding } from '../../src/terminal/ending.ts'

describe('A command that runs on', () => {
  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('is told once to end by %s', signal => {
    let told = 0
    const before = process.listenerCount(signal)
    const done = untilEnding(() => void told++)
    process.emit(signal)
    process.emit('SIGWINCH')
    expect(told).toBe(1)
    done()
    expect(process.listenerCount(signal)).toBe(before)
  })
})
