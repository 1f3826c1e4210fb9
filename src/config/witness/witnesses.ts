/**
 * Owns the setting of an authority that names the witnesses of its ledgers. Contract: "Events" (row 5);
 * docs/details/ledger.md, "Witnesses".
 */
import { z } from 'zod'
import { parseWitnessKey, type VerifierKey } from '../../wire/ledger/verifier-key.ts'
import { Refusal } from '../../wire/refusal.ts'
import { insecureUrlFault, optional, url as urlKind, type Kind } from '../settings.ts'

/** A witness: where it is asked, and the key by which it cosigns, which no other one has. */
export interface ConfiguredWitness {
  url: string
  key: VerifierKey
}

const WITNESSES_MAX = 16
const FORM = 'Give `https://… name+id+key` for each, separated by commas.'

const witnessList: Kind<ConfiguredWitness[]> = {
  type: 'list of URL and verifier key',
  schema: z.string().transform((text, context) => {
    const refuse = (message: string) => {
      context.addIssue({ code: 'custom', message })
      return z.NEVER
    }
    const witnesses: ConfiguredWitness[] = []
    for (const one of text.split(',')) {
      const [url = '', vkey = '', ...rest] = one.trim().split(/\s+/)
      if (vkey === '' || rest.length > 0 || !urlKind.schema.safeParse(url).success) return refuse(FORM)
      try {
        witnesses.push({ url, key: parseWitnessKey(vkey) })
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        return refuse(`${url}: ${error.detail ?? FORM}`)
      }
    }
    if (witnesses.length > WITNESSES_MAX) return refuse(`Give at most ${WITNESSES_MAX} witnesses.`)
    if (new Set(witnesses.map(({ key }) => key.key.x)).size < witnesses.length)
      return refuse('Name each witness once: two have the same key.')
    return witnesses
  }),
  json: { type: 'string', pattern: '^https?://\\S+ \\S+' },
}

export const witnesses = optional('UMA_AS_WITNESSES', witnessList, {
  description:
    'Witnesses (C2SP `tlog-witness`) that cosign the heads of ledgers, as `https://… name+id+key`, separated by commas: where each is asked, and its verifier key (`usher witness keys` prints it). What they learn stands in proof.md. None when left out.',
})

/** The faults of the setting with others. */
export function witnessFaults(values: {
  witnesses: readonly ConfiguredWitness[] | undefined
  logKeysFile: string | undefined
  devLoopback: boolean
}): string[] {
  if (values.witnesses === undefined) return []
  return [
    ...values.witnesses.flatMap(({ url }) => insecureUrlFault('UMA_AS_WITNESSES', url, values.devLoopback)),
    ...(values.logKeysFile === undefined
      ? ['Set UMA_AS_LOG_KEYS_FILE: UMA_AS_WITNESSES is set, and nothing is signed that they could cosign.']
      : []),
  ]
}
