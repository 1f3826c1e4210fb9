/**
 * Owns the sentences of a ledger about what an owner shares with others: her organization and her joint
 * accounts. Contract: "Events" (row 5); additions (docs/details/owner-api.md). Texts of others are in them as
 * they came.
 */
import { decider, timesText, type SentenceParts } from './ledger-parts.ts'

/** The organization by its name, or by its address if an entry has no more. */
function orgName({ entry: { name, actor, issuer } }: SentenceParts): string {
  const known = (actor as { name?: unknown } | undefined)?.name ?? name ?? issuer
  return typeof known === 'string' ? known : 'your organization'
}

/** The same at the beginning of a sentence. */
function orgFirst(parts: SentenceParts): string {
  return orgName(parts).replace(/^your organization$/, 'Your organization')
}

/** She leaves by her own act alone: whatever else ended her membership was not she. */
function leftSentence(parts: SentenceParts): string {
  const { by } = parts.entry
  if (by === undefined || by === 'owner') return `You left ${orgName(parts)}.`
  const who = by === 'administrator' ? `An administrator of ${orgName(parts)}` : orgFirst(parts)
  return `${who} ended your membership.`
}

const ACTS: Readonly<Record<string, (parts: SentenceParts) => string>> = {
  charter_changed: parts => `${orgFirst(parts)} changed its charter.`,
  clearance_checked: ({ whom, resource }) => `The clearance of ${whom} was checked for ${resource}.`,
  revoked: parts => `${decider(parts)} ended the access of ${parts.whom} to what your organization governs.`,
  restored: parts => `${decider(parts)} lets ${parts.whom} ask again for what your organization governs.`,
  blocked: parts => `${decider(parts)} blocked ${parts.of('operator')} at what your organization governs.`,
  unblocked: parts => `${decider(parts)} unblocked ${parts.of('operator')} there; it may ask again.`,
}

const EMERGENCIES: Readonly<Record<string, (parts: SentenceParts) => string>> = {
  opened: parts => `${decider(parts)} opened an emergency${after(': ', ownReason(parts))}.`,
  accepted: parts =>
    `Your authority let ${decider(parts)} into ${parts.resource} in an emergency${after(': ', ownReason(parts))}.`,
  refused: parts =>
    `Your authority refused an emergency of ${decider(parts)} at ${parts.resource}${after(': ', whyRefused(parts))}.${after(' The reason that was given for it: ', ownReason(parts), '.')}`,
  used: parts => `An emergency of ${orgName(parts)} was used.`,
  void: parts => `An emergency of ${orgName(parts)} ended without being used.`,
  // Nobody did these: her authority found them when it compared what it was told.
  used_again: parts =>
    `Your authority found that an emergency grant of ${orgName(parts)} at ${parts.resource} was used again: more than one call was reported under it.`,
  unreported: parts =>
    `Your authority found that no call was reported under an emergency grant of ${orgName(parts)} at ${parts.resource}, which was used according to the organization.`,
  unannounced: parts =>
    `Your authority found that a call was reported under an emergency grant of ${orgName(parts)} at ${parts.resource}, and that the organization did not tell of it.`,
}

/** Why her authority refused an emergency. A later version may know other words. */
const EMERGENCY_FAULTS: ReadonlyMap<unknown, string> = new Map([
  ['outside_clause', 'what you agreed to does not cover it'],
  ['invoker', 'you did not agree that this party may ask'],
  ['reason', 'no reason was given'],
  ['lifetime', 'its end had passed, or was later than you agreed to'],
  ['scope', 'what it asked for is not among the scopes that are allowed there'],
  ['operator_blocked', 'you blocked its operator'],
  ['key_revoked', 'you ended the access of this agent'],
])

function whyRefused({ entry: { because } }: SentenceParts): string {
  const words: unknown[] = Array.isArray(because) ? because : []
  return words
    .filter(word => typeof word === 'string')
    .map(word => EMERGENCY_FAULTS.get(word) ?? word)
    .join('; ')
}

/** The organization's own text; empty if it gave none. */
function ownReason({ entry: { reason } }: SentenceParts): string {
  return typeof reason === 'string' ? reason.trim() : ''
}

/** The text between what leads to it and what ends it; nothing if there is no text. */
function after(lead: string, text: string, end = ''): string {
  return text === '' ? '' : `${lead}${text}${end}`
}

/** By `what` it was; of one that is not known, the word itself. */
function byWhat(sentences: typeof ACTS, parts: SentenceParts): string {
  const what = parts.of('what')
  return Object.hasOwn(sentences, what) ? sentences[what]!(parts) : `${orgFirst(parts)} did this: ${what}.`
}

export const GROUP_SENTENCES: Readonly<Record<string, (parts: SentenceParts) => string>> = {
  org_joined: parts =>
    parts.entry['again'] === true
      ? `You agreed to a later charter of ${orgName(parts)}.`
      : `You joined ${orgName(parts)}.`,
  org_left: leftSentence,
  org_declined: ({ of }) => `You declined the invitation of ${of('issuer')}.`,
  org_clamped: ({ of }) => `The tier "${of('tier')}" keeps within what your organization allows from now on.`,
  org_role: parts =>
    parts.entry['what'] === 'role_changed'
      ? `${orgFirst(parts)} changed your role.`
      : `You changed what administrators of ${orgName(parts)} may do for you.`,
  org_acted: parts => byWhat(ACTS, parts),
  break_glass: parts => byWhat(EMERGENCIES, parts),
  joint_agreed: ({ of }) => `You agreed to hold ${of('account')} with others.`,
  joint_left: ({ of }) => `You left ${of('account')}, which you held with others.`,
  joint_changed: ({ of }) =>
    `The mandate of ${of('account')} has changed: nothing there is allowed in your name until you agree to it.`,
  joint_allowed: ({ whom, of, resource }) =>
    `Your yes, as a holder of ${of('account')}, was given to what ${whom} asked at ${resource}.`,
  joint_refused: ({ entry, whom, of, resource }) => {
    // What many strangers asked is counted in one entry, which names neither account nor resource.
    const account = entry['account'] === undefined ? 'a joint account' : of('account')
    const place = entry['resource_id'] === undefined ? '' : ` at ${resource}`
    return `Your no, as a holder of ${account}, was given to what ${whom} asked${place}: ${of('reason')}${timesText(entry)}.`
  },
}
