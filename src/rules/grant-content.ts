/**
 * All that an RPT and its receipt say, as it is kept where somebody is asked first. Contract: "RPT claims",
 * "Grant answer (beat 4)".
 */
import type { ClientId, Family, Handle, Owner } from '../wire/identifiers.ts'
import type { RptClaims, RptOperation } from '../wire/tokens.ts'
import type { DeclaredConsequences } from './permission.ts'

/** Whose decision it rests on is its party's. */
export interface GrantContent {
  owner: Owner
  family: Family
  handle: Handle
  /** Of the resource server. */
  client_id: ClientId
  aud: string
  resource_id: string
  scopes: string[]
  /** In seconds. */
  expires_in: number
  template_id: string
  terms_uri: string
  /** Of the operation that it is bound to, else the gravest of the resource. */
  consequence: string | null
  /** What the resource declared, tool by tool; absent in what was held before this was recorded. */
  declared?: DeclaredConsequences
  single_use: boolean
  operation: RptOperation | null
  agreement_jws: string
  agreement: string
  /** Claims of the offer that the agreement left out. */
  echo_absent: string[]
  cnf: RptClaims['cnf']['jwk']
  jkt: string
}

/**
 * The RPT's claims, as introspection will answer them, and what else it tells of the grant: the classes
 * declared by tool.
 */
export type GrantClaims = RptClaims & { consequences?: Record<string, string> }
