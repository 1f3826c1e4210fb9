/**
 * Owns who may decide a request that waits with an owner: she, or an administrator of her organization if the
 * organization governs what it is about. Contract: "Owner API" (`/owner/pending/{family}/decision`) and
 * "Organization membership, on the member's authorization server" (`/org/admin/{owner}/...`). Other files
 * check what no agent's record decides: which requests an administrator may see
 * (storage/authority/membership/administered.ts), whether she left him the power to approve
 * (authority/organization/administrator.ts), and whether an approval must be signed
 * (authority/owner/pending/decision.ts).
 */

/**
 * What stands against an approval. `blocked`: she blocks the agent or its operator. `ended`: she or the
 * organization ended the agent's access. `refused`: her tier refuses the request by what is known now, or no
 * tier has the resource any more.
 */
export type Obstacle = 'blocked' | 'ended' | 'refused'

/**
 * Whether the owner or an administrator may make this decision; `obstacle` is false if nothing stands against
 * an approval. Both may deny whatever waits. Nobody approves what she blocks before she has unblocked it.
 * Whatever else stands against an approval keeps only an administrator from it.
 */
export function mayDecide(
  by: 'owner' | 'administrator',
  decision: 'approved' | 'denied',
  obstacle: Obstacle | false,
): boolean {
  if (decision === 'denied' || obstacle === false) return true
  return by === 'owner' && obstacle !== 'blocked'
}
