/**
 * A mandate in plain sentences, for the people who are asked to agree to it. Contract: "Tally for a jointly
 * held resource" (`/mandate/{account}`). Our code makes them from the mandate alone, so that no tally chooses
 * the words.
 */
import { totalWeight, type Mandate } from '../../wire/joint/mandate.ts'

/** Its meaning, a sentence for each part. */
export function mandateSummary(mandate: Mandate): string[] {
  const { account, tally, holders, resources } = mandate
  const names = holders.map(({ owner, issuer, weight }) => `${owner} at ${issuer} (weight ${weight})`)
  return [
    `${account} is held jointly by ${inWords(names)}.`,
    `It covers ${inWords(resources)}.`,
    ruleSentence(mandate),
    `The tally ${tally} asks every holder and decides nothing: each answers through her own authorization server.`,
  ]
}

function ruleSentence(mandate: Mandate): string {
  const { kind, threshold } = mandate.rule
  if (kind === 'all') return 'An agent is let in if every holder allows it.'
  if (kind === 'any') return 'An agent is let in if any one holder allows it.'
  return `An agent is let in if holders with a weight of ${threshold} of ${totalWeight(mandate)} together allow it.`
}

function inWords(names: readonly string[]): string {
  const last = names.at(-1)
  return names.length < 2 ? (last ?? '') : `${names.slice(0, -1).join(', ')} and ${last}`
}
