/**
 * `make soak`: runs the soak for so many minutes, prints how memory went, and fails if it grew. contract,
 * "Health".
 */
import { HEAP, soak } from './soak.ts'

const GROWTH_MAX = 0.05
const minutes = Number(process.argv[2] ?? 60)
if (!(minutes > 0)) throw new Error('Say for how many minutes: make soak MINUTES=60')
const warmUpSeconds = Math.min(600, (minutes * 60) / 2)

const say = (line: string): void => void process.stdout.write(`${line}\n`)
say(
  `${minutes} minutes; memory counts from ${Math.round(warmUpSeconds)} s on; node ${process.version} ${HEAP}`,
)
say('   at s   rss MiB     calls    probes')
const { warmMib, endMib, growth, answers } = await soak({
  seconds: minutes * 60,
  warmUpSeconds,
  onSample: ({ atSeconds, rssMib, calls, probes }) =>
    say(
      [atSeconds, rssMib.toFixed(1), calls, probes]
        .map((value, at) => String(value).padStart(at === 0 ? 7 : 10))
        .join(''),
    ),
})
say(JSON.stringify(answers))
say(`after the warm-up ${warmMib} MiB, at the end ${endMib} MiB: ${(growth * 100).toFixed(1)} %`)
if (growth >= GROWTH_MAX) {
  say(`Resident memory grew by more than ${GROWTH_MAX * 100} %.`)
  process.exitCode = 1
}
