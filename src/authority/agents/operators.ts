/**
 * What the operator that an agent names publishes about it, unless the owner blocked that operator. Contract:
 * "Operator documents", "Agreement (claim_token, beat 3)" (`client_id`, `signature_agent`).
 */
import { assuranceOf } from '../../rules/assurance.ts'
import { isBlocked, readConnection } from '../../storage/authority/connections/connections.ts'
import type { Db } from '../../storage/authority/database.ts'
import { hasActiveAgents } from '../../storage/authority/connections/operators.ts'
import type { Identified } from '../../surface/agents/identity.ts'
import type { Documents, Store } from '../context.ts'
import type { OperatorPatience } from './operator-documents.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { JsonObject } from '../../wire/json.ts'

/**
 * What the named operator publishes of this agent, and which of `otherKeys` (thumbprints) its directory
 * lists; `agreed` are the claims of the agreement. Nothing is fetched from an operator that the owner
 * blocked. A document that cannot be fetched leaves its level at 0.
 */
export async function withOperator(
  { database, operators }: Store & Documents,
  owner: Owner,
  agent: Identified,
  of: { otherKeys: readonly string[]; deadline: number; agreed: JsonObject },
): Promise<Identified> {
  const { client_id, signature_agent, operator, jkt } = agent
  const db = database.of(owner)
  if (client_id === undefined || operator === undefined || (await isBlocked(db, owner, operator)))
    return agent
  const found = await operators.lookUp(
    { client_id, signature_agent, jkts: [jkt, ...of.otherKeys] },
    { ...(await patienceWith(db, owner, agent, of.deadline)), signedAt: signedAt(of.agreed) },
  )
  const attested = found.listed.has(jkt)
  return {
    ...agent,
    operatorName: found.name,
    attested,
    published: found.listed,
    assurance: assuranceOf({
      signed: true,
      issuerVouches: agent.identity === 'identified',
      clientDocumentClaimsItsUrl: found.clientDocumentClaimsItsUrl,
      directoryListsKey: attested,
    }),
    notes: [...agent.notes, ...found.notes],
  }
}

/** The end of the second in which an agreement was signed; undefined if it does not say. */
function signedAt({ iat }: JsonObject): number | undefined {
  return typeof iat === 'number' ? (iat + 1) * 1_000 : undefined
}

/**
 * Strangers that name operators must not displace the documents of operators that the owner already deals
 * with.
 */
async function patienceWith(
  db: Db,
  owner: Owner,
  agent: Identified,
  deadline: number,
): Promise<OperatorPatience> {
  const [connection, isKnown] = await Promise.all([
    readConnection(db, owner, agent.handle),
    hasActiveAgents(db, owner, agent.operator!),
  ])
  return { deadline, favoured: connection?.status === 'active' || isKnown }
}
