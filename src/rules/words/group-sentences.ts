/**
 * Owns the sentences of a ledger about what an owner shares with others: her organization and her joint
 * accounts. Contract: "Events" (row 5); additions (docs/details/owner-api.md). Texts of others are in them as
 * they came.
 */
import { decider, timesText, type SentenceParts } from './ledger-parts.ts'

const orgName = ({ entry: { name, actor } }: SentenceParts): string => {
  const named = (actor as { name?: unknown } | undefined)?.name ?? name
  return typeof named === 'string' ? named : 'your organization'
}

const ACTS: Readonly<Record<string, (parts: SentenceParts) => string>> = {
  charter_changed: parts => `${orgName(parts)} changed its charter.`,
  clearance_checked: ({ whom, resource }) => `The clearance of ${whom} was checked for ${resource}.`,
  revoked: parts => `${decider(parts)} ended the access of ${parts.whom} to what your organization governs.`,
  restored: parts => `${decider(parts)} lets ${parts.whom} ask again for what your organization governs.`,
  blocked: parts => `${decider(parts)} blocked ${parts.of('operator')} at what your organization governs.`,
  unblocked: parts => `${decider(parts)} unblocked ${parts.of('operator')} there; it may ask again.`,
}

const EMERGENCIES: Readonly<Record<string, (parts: SentenceParts) => string>> = {
  opened: parts => `${decider(parts)} opened an emergency: ${parts.of('reason')}.`,
  accepted: parts =>
    `Your authority let ${decider(parts)} into ${parts.resource} in an emergency: ${parts.of('reason')}.`,
  refused: parts =>
    `Your authority refused an emergency of ${decider(parts)} at ${parts.resource}: ${parts.of('reason')}.`,
  used: parts => `An emergency of ${orgName(parts)} was used.`,
  void: parts => `An emergency of ${orgName(parts)} ended without being used.`,
}

/** By `what` it was; of one that is not known, the word itself. */
function byWhat(sentences: typeof ACTS, parts: SentenceParts): string {
  const what = parts.of('what')
  return Object.hasOwn(sentences, what) ? sentences[what]!(parts) : `${orgName(parts)} did this: ${what}.`
}

export const GROUP_SENTENCES: Readonly<Record<string, (parts: SentenceParts) => string>> = {
  org_joined: parts =>
    parts.entry['again'] === true
      ? `You agreed to a later charter of ${orgName(parts)}.`
      : `You joined ${orgName(parts)}.`,
  org_left: parts => `You left ${orgName(parts)}.`,
  org_declined: ({ of }) => `You declined the invitation of ${of('issuer')}.`,
  org_clamped: ({ of }) => `The tier "${of('tier')}" keeps within what your organization allows from now on.`,
  org_role: parts =>
    parts.entry['what'] === 'role_changed'
      ? `${orgName(parts)} changed your role.`
      : `You changed what administrators of ${orgName(parts)} may do for you.`,
  org_acted: parts => byWhat(ACTS, parts),
  break_glass: parts => byWhat(EMERGENCIES, parts),
  joint_agreed: ({ of }) => `You agreed to hold ${of('account')} with others.`,
  joint_left: ({ of }) => `You left ${of('account')}, which you held with others.`,
  joint_changed: ({ of }) =>
    `The mandate of ${of('account')} has changed: nothing there is allowed in your name until you agree to it.`,
  joint_allowed: ({ whom, of, resource }) =>
    `Your yes, as a holder of ${of('account')}, was given to what ${whom} asked at ${resource}.`,
  joint_refused: ({ entry, whom, of, resource }) =>
    `Your no, as a holder of ${of('account')}, was given to what ${whom} asked at ${resource}: ${of('reason')}${timesText(entry)}.`,
}
