/**
 * The content of an RPT and its receipt, as it is stored if somebody is asked first. Contract: "RPT claims",
 * "Grant answer (beat 4)".
 */
import type { SignedStatement } from '../wire/owner/decision-statement.ts'
import type { ClientId, Family, Handle, Owner } from '../wire/identifiers.ts'
import type { JsonObject } from '../wire/json.ts'
import type { Mandate } from '../wire/joint/mandate.ts'
import type { RptClaims, RptOperation } from '../wire/negotiation/tokens.ts'
import type { DeclaredConsequences } from './permission.ts'

/** The party that issues it knows whose decision it rests on. */
export interface GrantContent {
  owner: Owner
  family: Family
  handle: Handle
  /** The client id of the resource server. */
  client_id: ClientId
  aud: string
  resource_id: string
  scopes: string[]
  /** In seconds. */
  expires_in: number
  template_id: string
  terms_uri: string
  /** The class of the operation that it is bound to, or else the gravest of the resource. */
  consequence: string | null
  /**
   * The classes that the resource declared, by tool; absent in requests that were held before this was
   * recorded.
   */
  declared?: DeclaredConsequences
  single_use: boolean
  operation: RptOperation | null
  agreement_jws: string
  agreement: string
  /** Claims of the offer that the agreement left out. */
  echo_absent: string[]
  /** Digest of the attestation that was checked, if one was asked for. */
  clearance?: string | undefined
  cnf: RptClaims['cnf']['jwk']
  jkt: string
  /** Set if it rests on what several holders allowed. */
  joint?: GrantedJoint | undefined
  /** Set if it rests on a decision that the owner signed. */
  ownerDecision?: OwnerDecision | undefined
}

/** The item in the form for others, its digest, and the statement that the owner signed over that. */
export type OwnerDecision = { item: JsonObject; item_s256: string; statement: SignedStatement }

/** The mandate and the verdicts that were counted, as signed, and the result. */
export type GrantedJoint = {
  account: Owner
  mandate: Mandate
  verdicts: string[]
  tally: { weight: number; threshold: number; total_weight: number }
}

/**
 * The RPT's claims, as introspection will answer them, and what else it says about the grant: the classes
 * declared by tool.
 */
export type GrantClaims = Omit<RptClaims, 'joint'> & {
  consequences?: Record<string, string>
  joint?: GrantedJoint
  owner_decision?: Omit<OwnerDecision, 'item_s256'>
}

/** A grant as its issuer signed it, before it is recorded. */
export interface SignedGrant {
  rptSha256: Buffer
  jti: string
  /** The RPT's claims, as introspection will answer them. */
  claims: GrantClaims
  receipt: string
  /** Seconds since the epoch. */
  expiresAt: number
}

/** What every issuer keeps of a grant. */
export interface GrantRecord {
  /** The RPT's claims, and whatever else introspection is to tell. */
  claims: GrantClaims
  client_id: ClientId
  aud: string
  single_use: boolean
  consumed: boolean
  expired: boolean
}
