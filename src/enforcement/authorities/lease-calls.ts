/**
 * Owns what a holder of leases sends to one owner's authority. Contract: "Protection API (resource servers
 * only, PAT-authorized)", with the extension that the metadata offers (docs/choices.md, ADR 0021).
 */
import type { Outbound } from '../../http/outbound/outbound.ts'
import type { OpenedStream, OutboundStreams } from '../../http/outbound/outbound-stream.ts'
import {
  LEASES_PATH,
  parseDropNumber,
  type LeaseRenewal,
  type LeaseRequest,
} from '../../wire/resources/leases.ts'
import { deadlineAt, type Deadline } from '../deadline.ts'
import type { PatSource } from './pat.ts'
import { UnwantedAnswer, type AskForJson } from './protected-calls.ts'

export interface LeaseDoor {
  /**
   * POST /leases: the stream of what the holder is told. Any status is an answer; throws if there is none.
   */
  open(request: LeaseRequest, onData: (chunk: Buffer) => void): Promise<OpenedStream>
  /**
   * POST /leases/{id}: the number up to which the holder is asked to drop what it has; undefined if the
   * authority knows no such holder. Throws if it gives no answer.
   */
  say(id: string, word: LeaseRenewal): Promise<number | undefined>
}

export interface LeaseDoorOptions {
  authority: string
  pats: PatSource
  askForJson: AskForJson
  grants: Outbound
  streams: OutboundStreams
  /** Milliseconds since the epoch. */
  clock: () => number
}

/** The time until the head of the stream is there. */
const STREAM_TIMEOUT_MS = 5_000
/** This is short, so that there is time for another attempt while the lease runs. */
const ACKNOWLEDGEMENT_TIMEOUT_MS = 1_000
/** After a few missing heartbeats (one each second) the line counts as dead. */
const SILENCE_MS = 5_000

/** Sends nothing until it is used. */
export function createLeaseDoor(options: LeaseDoorOptions): LeaseDoor {
  const { authority, pats, askForJson, grants, streams, clock } = options
  const within = (ms: number): Deadline => deadlineAt(clock() + ms, clock)
  /** A token that was just given was refused, too: it is not at fault, and calls need it. */
  let refusesFresh = false
  const openWith = (
    pat: string,
    request: LeaseRequest,
    onData: (chunk: Buffer) => void,
  ): Promise<OpenedStream> =>
    streams.open({
      method: 'POST',
      url: authority + LEASES_PATH,
      headers: {
        authorization: `Bearer ${pat}`,
        'content-type': 'application/json',
        accept: 'text/event-stream',
      },
      body: JSON.stringify(request),
      timeoutMs: STREAM_TIMEOUT_MS,
      silenceMs: SILENCE_MS,
      onData,
    })
  return {
    open: async (request, onData) => {
      const pat = await pats.get(within(STREAM_TIMEOUT_MS))
      const opened = await openWith(pat, request, onData)
      if (opened.status !== 401 || refusesFresh) {
        refusesFresh = opened.status === 401
        return opened
      }
      pats.reject(pat)
      const again = await openWith(await pats.get(within(STREAM_TIMEOUT_MS)), request, onData)
      refusesFresh = again.status === 401
      return again
    },
    say: async (id, word) => {
      const call = {
        path: `${LEASES_PATH}/${encodeURIComponent(id)}`,
        body: word,
        pool: grants,
        deadline: within(ACKNOWLEDGEMENT_TIMEOUT_MS),
        repeatable: true,
      }
      try {
        return parseDropNumber(await askForJson(call, 200))
      } catch (error) {
        if (isUnknown(error)) return undefined
        throw error
      }
    },
  }
}

function isUnknown(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof UnwantedAnswer && error.cause.status === 404
}
