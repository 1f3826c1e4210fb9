/**
 * Loaded into a process before its program: at its end tells on descriptor 3 how long it computed and how
 * long it waited, in milliseconds. What other processes of the machine took is in neither.
 */
import { writeSync } from 'node:fs'
import { performance } from 'node:perf_hooks'

process.on('exit', () => {
  const { user, system } = process.cpuUsage()
  writeSync(
    3,
    JSON.stringify({ computed: (user + system) / 1000, waited: performance.eventLoopUtilization().idle }),
  )
})
