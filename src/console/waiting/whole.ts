/**
 * Owns what is shown with a request: the agent's own words, read from the agreement that it signed, and only
 * if the record names that agreement and its key signed it; what she knows about the agent; and the last such
 * call that she approved. Contract: "Agreement" (reason, mission, operation), "Owner API"
 * (`/owner/pending/{family}`).
 */
import { useEffect, useState } from 'preact/hooks'
import { operationOf } from '../../rules/agreement.ts'
import type { DecisionItem } from '../../wire/decision-item.ts'
import { isJsonObject, parseJsonObject, type JsonObject } from '../../wire/json.ts'
import type { WholePendingItem } from '../../wire/owner-api.ts'
import { ask, ApiFault, type Access } from '../api.ts'
import { textOfBase64url } from '../bytes.ts'
import { signedAgreement } from '../jws.ts'
import { useSession } from '../session.ts'

/** A call that she approved; `at` is ISO 8601. */
export interface EarlierCall {
  at: string
  params: JsonObject
}

export interface Whole {
  /** Why it asks, in its own words; `forged`: the server gave words that this agent did not sign. */
  said: { reason: string | undefined; approver: string | undefined } | 'forged'
  connection: WholePendingItem['connection']
  /** Null if she has not approved a call of this tool by this agent yet, or if it is no call. */
  earlier: EarlierCall | null
}

/** Undefined until it is there, and if nobody answers: a card does not wait for it. */
export function useWhole(item: DecisionItem): Whole | undefined {
  const { access } = useSession()
  const [whole, setWhole] = useState<Whole>()
  useEffect(() => {
    let isCurrent = true
    wholeOf(access, item).then(
      read => {
        if (isCurrent) setWhole(read)
      },
      (error: unknown) => {
        // The card says if the item no longer waits.
        if (isCurrent && !(error instanceof ApiFault))
          setWhole({ said: 'forged', connection: null, earlier: null })
      },
    )
    return () => {
      isCurrent = false
    }
    // The record of a family never changes; its hash would show that.
  }, [access, item.family, item.agreement_s256])
  return whole
}

async function wholeOf(access: Access, item: DecisionItem): Promise<Whole> {
  const { agreement_jws, approved_before, connection } = await ask<WholePendingItem>(access, {
    path: `owner/pending/${encodeURIComponent(item.family)}`,
  })
  const earlier = approved_before && earlierOf(item, approved_before)
  const named = { agreement: item.agreement_s256, jkt: item.agent.jkt }
  const claims = await signedAgreement(agreement_jws, named)
  if (claims === undefined) return { said: 'forged', connection, earlier }
  const { reason, mission } = claims
  const approver = isJsonObject(mission) ? mission['approver'] : undefined
  const said = {
    reason: typeof reason === 'string' && reason !== '' ? reason : undefined,
    approver: typeof approver === 'string' ? approver : undefined,
  }
  return { said, connection, earlier }
}

/** Read from what the agent signed then; a call of another tool is not comparable. */
function earlierOf(
  { operation }: DecisionItem,
  { approved_at, agreement_jws }: NonNullable<WholePendingItem['approved_before']>,
): EarlierCall | null {
  const called = operationOf(payloadOf(agreement_jws))
  return called === undefined || called.tool !== operation?.tool
    ? null
    : { at: approved_at, params: called.params }
}

function payloadOf(jws: string): JsonObject {
  return parseJsonObject(textOfBase64url(jws.split('.')[1] ?? '') ?? '')
}
