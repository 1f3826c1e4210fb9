/**
 * Makes the grant that was agreed and decided: RPT and receipt, signed before anything is stored. Contract:
 * "Grant answer (beat 4)", "RPT claims".
 */
import type { Operation } from '../../rules/agreement.ts'
import type { GrantClaims, GrantContent, GrantedJoint, SignedGrant } from '../../rules/grant-content.ts'
import { declaredByTool, operationConsequence, type DeclaredConsequences } from '../../rules/permission.ts'
import { absentEchoes } from '../../rules/weakened-echo.ts'
import { signReceipt, type Agreement, type ReceiptClaims } from '../../wire/negotiation/agreement.ts'
import { s256, s256Json, sha256 } from '../../wire/encoding.ts'
import type { Verified } from '../../wire/signatures/jws.ts'
import { mandateDigest } from '../../wire/joint/mandate.ts'
import { grantAnswer, type GrantAnswer } from '../../wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import { newJti } from '../../wire/negotiation/ticket.ts'
import { signRpt, type RptClaims } from '../../wire/negotiation/tokens.ts'
import type { HourHeadSource, Signer } from '../issuer.ts'
import type { ClientId, Family, Handle, Owner } from '../../wire/identifiers.ts'

/** The result of an agreement. */
export function grantContent(of: {
  family: { owner: Owner; family: Family }
  /** The offer that was agreed to. */
  template: Pick<TermsTemplate, 'template_id' | 'terms_uri'>
  agreement: Verified<Agreement>
  handle: Handle
  server: { client_id: ClientId; resource_uri: string }
  resource: { resource_id: string } & DeclaredConsequences
  scopes: string[]
  expiresIn: number
  singleUse: boolean
  operation: Operation | undefined
}): GrantContent {
  const { family, agreement, server, resource, singleUse, operation } = of
  const { template_id, terms_uri } = of.template
  const bound = singleUse ? operation : undefined
  const { consequence, tools } = resource
  return {
    owner: family.owner,
    family: family.family,
    handle: of.handle,
    client_id: server.client_id,
    aud: server.resource_uri,
    resource_id: resource.resource_id,
    scopes: of.scopes,
    expires_in: of.expiresIn,
    template_id,
    terms_uri,
    consequence: operationConsequence(resource, bound),
    declared: { consequence, tools },
    single_use: singleUse,
    operation: bound === undefined ? null : { tool: bound.tool, params_s256: s256Json(bound.params) },
    agreement_jws: agreement.compact,
    agreement: agreement.hash,
    echo_absent: absentEchoes(agreement.claims),
    cnf: { kty: 'OKP', crv: 'Ed25519', x: agreement.key.x },
    jkt: agreement.key.thumbprint,
  }
}

/**
 * Signs the RPT and the receipt: nothing is signed inside the transaction that records them, or after it.
 * `now` (seconds since the epoch) is when `expires_in` was reckoned: a later moment would give a grant that
 * ends after what it rests on. @returns what is recorded, and the answer for the agent.
 */
export function signGrant(
  signer: Signer & HourHeadSource,
  content: GrantContent,
  now: number = signer.now(),
): { signed: SignedGrant; body: GrantAnswer } {
  const claims = rptClaims(signer.issuer, content, now)
  const rpt = signRpt({ ...claims, ...jointDigests(content) }, signer.keys[0])
  const ledger_head = signer.checkpoints?.headOfHour(content.owner)
  const receipt = signReceipt(
    { ...receiptClaims(claims, content, now), ...(ledger_head === undefined ? {} : { ledger_head }) },
    signer.keys[0],
  )
  return {
    signed: {
      rptSha256: sha256(rpt),
      jti: claims.jti,
      claims: { ...claims, ...consequencesOf(content), ...wholeJoint(content), ...signedDecision(content) },
      receipt,
      expiresAt: claims.exp,
    },
    body: grantAnswer({ access_token: rpt, expires_in: content.expires_in, receipt }),
  }
}

/** Introspection gives all of it; an RPT carries only digests, because it must fit in a header field. */
function wholeJoint({ joint }: GrantContent): { joint?: GrantedJoint } {
  return joint === undefined ? {} : { joint }
}

/** This is too long for a header field, so only introspection gives it. */
function signedDecision({ ownerDecision }: GrantContent): Pick<GrantClaims, 'owner_decision'> {
  if (ownerDecision === undefined) return {}
  const { item, statement } = ownerDecision
  return { owner_decision: { item, statement } }
}

function decisionInReceipt({ ownerDecision }: GrantContent): Pick<ReceiptClaims, 'owner_decision'> {
  if (ownerDecision === undefined) return {}
  const { item_s256, statement } = ownerDecision
  return { owner_decision: { item_s256, statement } }
}

function jointDigests({ joint }: GrantContent): Pick<RptClaims, 'joint'> {
  if (joint === undefined) return {}
  const { account, mandate, verdicts } = joint
  return {
    joint: { account, mandate_s256: mandateDigest(mandate), verdicts_s256: verdicts.map(one => s256(one)) },
  }
}

/**
 * The classes by tool as they were declared when the grant was made; they are not in the RPT, where they
 * would only lengthen each call.
 */
function consequencesOf({ declared }: GrantContent): { consequences?: Record<string, string> } {
  const consequences = declared === undefined ? {} : declaredByTool(declared)
  return Object.keys(consequences).length === 0 ? {} : { consequences }
}

function rptClaims(issuer: string, content: GrantContent, now: number): Omit<RptClaims, 'joint'> {
  const { handle, resource_id, scopes, consequence, single_use, operation } = content
  const exp = now + content.expires_in
  return {
    iss: issuer,
    sub: handle,
    client_id: handle,
    aud: content.aud,
    jti: newJti('rpt_'),
    iat: now,
    exp,
    cnf: { jwk: content.cnf },
    permissions: [{ resource_id, resource_scopes: scopes, exp }],
    contract: content.agreement,
    owner: content.owner,
    family: content.family,
    ...(consequence === null ? {} : { consequence }),
    ...(content.clearance === undefined ? {} : { clearance: content.clearance }),
    ...(single_use && operation !== null ? { single_use: true as const, operation } : {}),
  }
}

function receiptClaims(rpt: Omit<RptClaims, 'joint'>, content: GrantContent, now: number): ReceiptClaims {
  const { echo_absent } = content
  return {
    iss: rpt.iss,
    sub: content.handle,
    owner: content.owner,
    iat: now,
    jti: newJti('rcp_'),
    family: content.family,
    resource_id: content.resource_id,
    terms_uri: content.terms_uri,
    template_id: content.template_id,
    agreement: content.agreement,
    agreement_jws: content.agreement_jws,
    cnf: { jkt: content.jkt },
    rpt: rpt.jti,
    ...(echo_absent.length === 0 ? {} : { echo_absent }),
    ...wholeJoint(content),
    ...decisionInReceipt(content),
  }
}
