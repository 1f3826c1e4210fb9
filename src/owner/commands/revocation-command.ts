/**
 * Owns `usher owner revocation`: the signed revocation of an act, for whoever keeps records of calls.
 * docs/choices.md, "Revocations that prove themselves". Contract: "Owner API".
 */
import type { Command } from 'commander'
import { ApiError } from '../../client/api-error.ts'
import { Refusal } from '../../wire/refusal.ts'
import { verifyRevocation } from '../../wire/ledger/revocation.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'

/** Adds the command. */
export function addRevocation(program: Command, action: OwnerAction): void {
  program
    .command('revocation')
    .argument('<id>', 'as `revoke` and `block` printed it')
    .description(
      'the signed revocation of what you ended, after its signature was checked: keep it, and give it to whoever holds records of calls',
    )
    .action(action(revocation))
}

/** Prints the JWT and nothing else, so that it can be written to a file. */
async function revocation(session: OwnerSession, jti: string): Promise<void> {
  const { client } = session
  const signed = await client.revocation(jti)
  const { revocation: jwt } = signed
  if (jwt === null) throw new ApiError('temporarily_unavailable', 'It is not signed yet: ask again shortly.')
  try {
    const expected = { issuer: client.access.issuer, now: Math.floor(Date.now() / 1_000) }
    const { jti: named } = verifyRevocation(jwt, await client.publishedKeys(), expected)
    if (named !== jti) throw new ApiError('revocation_unverified', 'The authority sent another revocation.')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new ApiError('revocation_unverified', error.detail ?? error.message)
  }
  tell(session, signed, () => `${jwt}\n`)
}
