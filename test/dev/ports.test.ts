/** contract, "Parties": each listens for itself, also if several stacks start at the same moment. */
import { execFile } from 'node:child_process'
import { createServer } from 'node:net'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { freePorts } from '../../src/dev/stack/ports.ts'

/** Where outgoing connections of this and most other systems begin to take theirs. */
const OUTGOING = 32_768

describe('The ports of a local stack', () => {
  it('are all different, and none is one that an outgoing connection may take', async () => {
    const ports = [...(await freePorts(100)), ...(await freePorts(100))]
    expect(new Set(ports).size).toBe(200)
    expect(ports.filter(port => port >= OUTGOING)).toEqual([])
  })

  it('pass over one that somebody listens at', async () => {
    const [first] = await freePorts(1)
    const taken = createServer()
    await new Promise<void>(resolve => taken.listen(first + 1, '127.0.0.1', resolve))
    try {
      expect(await freePorts(50)).not.toContain(first + 1)
    } finally {
      taken.close()
    }
  })

  it('are others in each process that chooses at the same time', async () => {
    const program = `import { freePorts } from './src/dev/stack/ports.ts'; console.log(JSON.stringify(await freePorts(30)))`
    const chosen = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program])
        return JSON.parse(stdout) as number[]
      }),
    )
    expect(new Set(chosen.flat()).size).toBe(120)
  })
})
