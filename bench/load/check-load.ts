/**
 * Owns loading a check server: a corpus of signed checks sent over a few connections, each answer decoded and
 * required to be an allow.
 */
import { decodeCheckResponse } from '../../src/enforcement/doors/grpc/check-messages.ts'
import { connect } from '../../test/support/check-client.ts'
import type { Load, Share } from '../world.ts'
import { openCheckChannel, type CheckChannel } from './check-channel.ts'

/** The source of checks: this many, signed now. `spent` ones may be sent only once. */
export interface Corpus {
  make(calls: number): Promise<Buffer[]>
  spent: boolean
}

/**
 * A load of checks to the check servers at these ports, connections and calls spread evenly. The first check
 * of each round goes through grpc-js, so that ours is no less strict than a usual client.
 */
export async function checkLoad(
  ports: readonly number[],
  { connections }: Share,
  corpus: Corpus,
): Promise<Load> {
  let channels: CheckChannel[] = []
  let checks: Buffer[] = []
  let sent = 0
  return {
    prepare: async calls => {
      for (const channel of channels) channel.close()
      // Anew for each round: a sidecar ends connections that grow old, which is no part of this measurement.
      channels = await Promise.all(
        Array.from({ length: connections }, (_, n) => openCheckChannel(ports[n % ports.length]!)),
      )
      checks = await corpus.make(calls)
      sent = 1
      await askAsProxy(ports[0]!, checks[0]!)
    },
    next: () => {
      if (corpus.spent && sent >= checks.length) return undefined
      const check = checks[sent % checks.length]!
      return ask(channels[sent++ % channels.length]!, check)
    },
  }
}

async function ask(channel: CheckChannel, check: Buffer): Promise<void> {
  const { status, ok_response, denied_response, dynamic_metadata } = decodeCheckResponse(
    await channel.call(check),
  )
  if (
    status === undefined ||
    (status.code ?? 0) !== 0 ||
    ok_response === undefined ||
    denied_response !== undefined
  ) {
    const said = denied_response?.body ?? JSON.stringify(dynamic_metadata ?? status ?? 'nothing')
    throw new Error(`a check was not answered with an allow: ${said}`)
  }
}

async function askAsProxy(port: number, check: Buffer): Promise<void> {
  const client = connect(`127.0.0.1:${port}`)
  try {
    const answer = await client.check(check, { deadline: Date.now() + 10_000 })
    if (answer.status === undefined || (answer.status.code ?? 0) !== 0 || !answer.ok_response)
      throw new Error(`a check was not answered with an allow: ${JSON.stringify(answer)}`)
  } finally {
    client.close()
  }
}
