/**
 * Owns the words that tell an owner which of her terms are enforced, and which the agent merely promises.
 * Contract: "Owner API"; the members are settled in docs/choices.md. An authority of another version may send
 * others: unknown members are shown as they came.
 */
type Enforced = Readonly<Record<string, unknown>>

const KEPT_BY: ReadonlyMap<unknown, string> = new Map([
  ['scope', 'enforced: no grant under these terms has that scope'],
  ['operation', 'enforced: this grant is for one other call'],
  ['promise', 'only promised'],
])

/** One prohibition, and in plain words what enforces it, if that is known: `leverage (only promised)`. */
export function prohibitionText(prohibition: string, enforced: Enforced): string {
  const list = Array.isArray(enforced['prohibited']) ? (enforced['prohibited'] as unknown[]) : []
  const found = list.find(
    (one): one is Enforced =>
      typeof one === 'object' && one !== null && (one as Enforced)['prohibition'] === prohibition,
  )
  const words = KEPT_BY.get(found?.['by'])
  return words === undefined ? prohibition : `${prohibition} (${words})`
}

/**
 * The limits of a grant, in one sentence: `scope read; at most 300 s; once; exactly this operation`.
 */
export function enforcedText(enforced: Enforced): unknown {
  const { scope, expires_in, single_use, operation_bound, prohibited: _prohibited, ...others } = enforced
  const known = Array.isArray(scope) && typeof expires_in === 'number' && typeof single_use === 'boolean'
  if (!known || Object.keys(others).length > 0) return enforced
  return [
    `scope ${scope.map(String).join(' ')}`,
    `at most ${expires_in} s`,
    ...(single_use ? ['once'] : []),
    ...(operation_bound === true ? ['exactly this operation'] : []),
  ].join('; ')
}
