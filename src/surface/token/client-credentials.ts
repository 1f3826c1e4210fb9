/**
 * client_credentials: a resource server gets a PAT for the one owner that it names, by secret or by
 * signature, as its stored record says. Contract: "Token endpoint", "Authentication" (resource server at the
 * token endpoint).
 */
import { timingSafeEqual } from 'node:crypto'
import { protectionRefusal } from '../../rules/registration.ts'
import { sha256 } from '../../wire/encoding.ts'
import type { SignedMessage } from '../../wire/signatures/http-signature.ts'
import { PROTECTION_SCOPE } from '../../wire/names.ts'
import { Refusal, refuse, unavailable } from '../../wire/refusal.ts'
import { newJti } from '../../wire/negotiation/ticket.ts'
import { signPat } from '../../wire/negotiation/tokens.ts'
import type { Signer } from '../issuer.ts'
import type { ResourceServer, ResourceServers, ResourceServersByOrigin } from '../resource-servers.ts'
import type { TokenReply } from './answers.ts'
import type { TokenRequest } from './token-request.ts'
import { asClientId, asOwner, type ClientId, type Owner } from '../../wire/identifiers.ts'

export interface PatIssuance {
  signer: Signer
  servers: ResourceServers & ResourceServersByOrigin
  proofs: SignatureProofs
  patSeconds: number
}

/**
 * What is known about the keys that resource servers publish, and about the PATs that were issued to them.
 */
export interface SignatureProofs {
  /**
   * By what a message was signed, just now: by a key of the record, or, if it lists none, by one that the
   * registered resource publishes at its own origin ('current'), or by one of its former keys; 'unread' if
   * the keys could not be read for a temporary reason. Why a signature fails is only for the party's log.
   */
  prove(server: ResourceServer, message: SignedMessage): Promise<'current' | 'former' | 'unproven' | 'unread'>
  /** Notes that a PAT is issued, and whether for what is on record now (and not for what was before). */
  issued(server: ResourceServer, byCurrent: boolean): Promise<void>
  /**
   * Tells the party's operator, and no caller, that a server which is on record sent another secret, or a
   * proof of the other kind.
   */
  wrongProof(server: ResourceServer, kind: ResourceServer['auth']): void
}

/** The parts of the request that can prove who sent it. */
export interface TokenCaller {
  authorization: string | undefined
  /** The whole request, if it carries a signature. */
  signed: SignedMessage | undefined
}

interface PresentedSecret {
  client_id: ClientId
  secret: string
  /** RFC 6749 §5.2: a client that used the Authorization header is answered with WWW-Authenticate. */
  byHeader: boolean
}

interface PresentedSignature {
  client_id: ClientId
  secret?: undefined
  message: SignedMessage
}

type ClientProof = PresentedSecret | PresentedSignature

const UNDECIDED = {
  authorization_pending: 'Wait until the owner has approved this resource server, then ask again.',
  access_denied:
    'The owner has withdrawn this resource server; 24 hours after that it may register again and ask her once more.',
} as const
const CHALLENGE = { headers: { 'www-authenticate': 'Basic realm="token"' } }

/**
 * Returns a PAT, with the resource that is on record, so that a resource server finds out that it serves
 * another one. The order of the checks is fixed: owner served, client known, credential right (401
 * `invalid_client`, all three alike), pending 403 `authorization_pending`, revoked 403 `access_denied`, scope
 * 400 `invalid_scope`. A signed request may be sent again within its window: it changes nothing, and anybody
 * who could see it could also see the PAT in the answer.
 */
export async function issuePat(
  { signer, servers, proofs, patSeconds }: PatIssuance,
  form: TokenRequest,
  caller: TokenCaller,
): Promise<TokenReply> {
  // 1. One credential, for one owner.
  const presented = presentedCredential(form, caller)
  if (form.owner === undefined) refuse('invalid_request', 'Name the owner you ask about in `owner`.')
  const owner = asOwner(form.owner)

  // 2. The record whose own kind of credential was presented and is right; the other kind is never looked at.
  const known = await servers.read(owner, presented.client_id)
  const { server, byCurrent } =
    presented.secret === undefined
      ? await authenticateBySignature(proofs, known ?? (await onlyAt(servers, owner, presented)), presented)
      : authenticateBySecret(proofs, known, presented)

  // 3. The owner has approved it.
  const refused = protectionRefusal(server.status)
  if (refused !== undefined) refuse(refused, UNDECIDED[refused])

  // 4. For the one scope there is.
  if (form.scope !== PROTECTION_SCOPE) refuse('invalid_scope', `Ask for the scope ${PROTECTION_SCOPE}.`)

  // 5. The PAT.
  const now = signer.now()
  const access_token = signPat(
    {
      iss: signer.issuer,
      sub: server.owner,
      azp: server.client_id,
      scope: PROTECTION_SCOPE,
      jti: newJti('pat_'),
      iat: now,
      exp: now + patSeconds,
      rs_generation: server.generation,
    },
    signer.keys[0],
  )
  await proofs.issued(server, byCurrent)
  return {
    status: 200,
    body: {
      access_token,
      token_type: 'Bearer',
      expires_in: patSeconds,
      scope: PROTECTION_SCOPE,
      resource_uri: server.resource_uri,
    },
  }
}

/** Who proved to be who; `byCurrent`: by what is on record now. */
interface ProvenServer {
  server: ResourceServer
  byCurrent: boolean
}

function authenticateBySecret(
  proofs: SignatureProofs,
  server: ResourceServer | undefined,
  { secret, byHeader }: PresentedSecret,
): ProvenServer {
  // There are two comparisons in every case, so that the time does not reveal whether the owner or the client
  // exists.
  const digest = sha256(secret)
  const isOf = (known: Buffer | null | undefined): boolean =>
    timingSafeEqual(digest, known ?? Buffer.alloc(32)) && known != null
  const [right, former] = [isOf(server?.secret_sha256), isOf(server?.former_secret_sha256)]
  // Only a server of the provisioning file has either: one that registered by signature has none to fall back
  // to.
  if (server === undefined || !(right || former)) {
    if (server !== undefined) proofs.wrongProof(server, 'secret')
    throw new Refusal(
      'invalid_client',
      'Send the client_id and client_secret recorded for this owner.',
      byHeader ? CHALLENGE : {},
    )
  }
  return { server, byCurrent: right }
}

/**
 * A client_id that is only an origin names the one server that this owner has there: software that identifies
 * itself by its origin need not know that there is a record per resource. If there are two, it names neither.
 */
async function onlyAt(
  servers: ResourceServersByOrigin,
  owner: Owner,
  { client_id }: PresentedSignature,
): Promise<ResourceServer | undefined> {
  if (!isOrigin(client_id)) return undefined
  const [one, another] = await servers.atOrigin(owner, client_id)
  return another === undefined ? one : undefined
}

function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text
}

async function authenticateBySignature(
  proofs: SignatureProofs,
  server: ResourceServer | undefined,
  { client_id, message }: PresentedSignature,
): Promise<ProvenServer> {
  if (server === undefined) throw unproven(client_id)
  if (server.auth !== 'signature' && server.former_keys == null) {
    proofs.wrongProof(server, 'signature')
    throw unproven(client_id)
  }
  const by = await proofs.prove(server, message)
  switch (by) {
    case 'current':
    case 'former':
      return { server, byCurrent: by === 'current' }
    case 'unproven':
      throw unproven(client_id)
    case 'unread':
      throw unavailable(
        'Serve the metadata and the keys of the resource where it was registered, and ask again: they could not be read.',
        10,
      )
  }
}

/** The answer is the same whatever is wrong: its text depends only on what was sent. */
function unproven(client_id: string): Refusal {
  return new Refusal(
    'invalid_client',
    'Sign the request now, over @method, @authority, @path and content-digest, with a key that is published at the origin ' +
      'of the resource which is registered, under client_id, for this owner, or that the provisioning file lists for it.' +
      (isOrigin(client_id)
        ? ' Name the resource as client_id: an origin names a resource server only if this owner has exactly one there.'
        : ''),
  )
}

function presentedCredential(form: TokenRequest, { authorization, signed }: TokenCaller): ClientProof {
  const { client_id, client_secret } = form
  if (signed !== undefined && (authorization !== undefined || client_secret !== undefined))
    refuse('invalid_request', 'Prove yourself in one way: by signature or by secret, not by both.')
  if (authorization !== undefined) {
    if (client_secret !== undefined)
      refuse('invalid_request', 'Send the client secret once: in the form or in Authorization, not in both.')
    const basic = readBasic(authorization)
    if (client_id !== undefined && client_id !== basic.client_id)
      refuse('invalid_request', 'Send one client_id: the form and Authorization disagree.')
    return basic
  }
  if (client_id !== undefined && signed !== undefined)
    return { client_id: asClientId(client_id), message: signed }
  if (client_id === undefined || client_secret === undefined)
    refuse(
      'invalid_client',
      'Send client_id and client_secret, in the form or as HTTP Basic; or client_id, and sign the request.',
    )
  return { client_id: asClientId(client_id), secret: client_secret, byHeader: false }
}

function readBasic(authorization: string): PresentedSecret {
  const bad = () =>
    new Refusal(
      'invalid_client',
      'Send HTTP Basic with the form-encoded client_id and client_secret.',
      CHALLENGE,
    )
  const match = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authorization)
  if (match?.[1] === undefined) throw bad()
  const decoded = Buffer.from(match[1], 'base64').toString('utf8')
  const colon = decoded.indexOf(':')
  if (colon < 0 || decoded.includes('\0')) throw bad()
  try {
    const [client_id, secret] = [decoded.slice(0, colon), decoded.slice(colon + 1)].map(part =>
      decodeURIComponent(part.replaceAll('+', ' ')),
    ) as [string, string]
    return { client_id: asClientId(client_id), secret, byHeader: true }
  } catch {
    throw bad()
  }
}
