/**
 * Owns what writing a CheckResponse costs: by our own code
 * (src/enforcement/doors/grpc/check-response-bytes.ts), and by the library's, in turns, for the answer to an
 * authorized standing call. By itself: `node bench/scenarios/check-response.ts`.
 */
import { encodeCheckResponse } from '../../src/enforcement/doors/grpc/check-response-bytes.ts'
import type { CheckResponse } from '../../src/enforcement/doors/grpc/check-messages.ts'
import { codec, ours } from '../../test/support/envoy-protos.ts'
import { spreadOf } from '../figures.ts'

const TURNS = 9
const ANSWERS = 20_000

const header = (key: string, value: string) => ({
  header: { key, value },
  append: { value: false },
  append_action: 2,
})

/**
 * As the sidecar allows a call: the owner, the agent and what was agreed told upstream, the proof taken off.
 */
const ALLOW: CheckResponse = {
  status: { code: 0 },
  ok_response: {
    headers: [
      header('x-uma-owner', 'alice'),
      header('x-uma-agent', 'jkt:NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs'),
      header('x-uma-family', 'fam_AAECAwQFBgc'),
      header('x-uma-contract', 's256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o'),
      header('x-uma-tool', 'read_notes'),
    ],
    headers_to_remove: ['authorization', 'signature', 'signature-input'],
  },
  dynamic_metadata: {
    fields: {
      decision: { stringValue: 'allow' },
      family: { stringValue: 'fam_AAECAwQFBgc' },
      handle: { stringValue: 'jkt:NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs' },
    },
  },
}

/** Microseconds of CPU for one answer. */
function costOf(write: (response: CheckResponse) => Buffer): number {
  const before = process.cpuUsage()
  let bytes = 0
  for (let n = 0; n < ANSWERS; n++) bytes += write(ALLOW).length
  const { user, system } = process.cpuUsage(before)
  if (bytes !== ANSWERS * write(ALLOW).length) throw new Error('the answers differ in length')
  return (user + system) / ANSWERS
}

const library = codec(ours, 'envoy.service.auth.v3.CheckResponse')
const ways = { ours: encodeCheckResponse, library: (of: CheckResponse) => library.serialize({ ...of }) }
const seen = { ours: [] as number[], library: [] as number[] }
for (let turn = -2; turn < TURNS; turn++)
  for (const way of ['ours', 'library'] as const) {
    const micros = costOf(ways[way])
    if (turn >= 0) seen[way].push(micros)
  }
for (const [way, micros] of Object.entries(seen)) {
  const { median, min, max } = spreadOf(micros)!
  console.log(`${way.padEnd(7)} ${median.toFixed(2)} µs (${min.toFixed(2)} to ${max.toFixed(2)})`)
}
