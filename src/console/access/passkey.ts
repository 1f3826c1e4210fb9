/**
 * Owns the page's use of passkeys: making one, letting in the key of this browser, and signing a decision
 * (WebAuthn Level 3). Contract: "Authentication", "Owner API". The browser asks her each time; the page has
 * nothing that could sign in her place.
 */
import type { ConsoleSettings } from '../../wire/owner/console.ts'
import { canonicalize, type JsonObject } from '../../wire/json.ts'
import type { LetInKey, Passkey, PasskeyOptions } from '../../wire/owner/owner-credentials.ts'
import type { Assertion } from '../../wire/passkeys/passkey-assertion.ts'
import type { LoginClaims, RegistrationClaims } from '../../wire/passkeys/passkey-claims.ts'
import { ApiFault, ask, askAll, type Access } from './api.ts'
import { base64url, bytesOfBase64url, sha256, utf8 } from '../bytes.ts'
import { jwkOf } from './device-jwk.ts'
import { keepKey, makeKey, type BrowserKey } from './device-key.ts'
import { WORDS } from '../words.ts'

const W = WORDS.passkeys
/** ES256, and nothing else. */
const ES256 = -7

/**
 * The domain of passkeys, if they are accepted at the address of this page; undefined if none can be used
 * here.
 */
export function rpIdHere({ passkeys }: Pick<ConsoleSettings, 'passkeys'>): string | undefined {
  const isHere = passkeys?.origins.includes(location.origin) === true && 'PublicKeyCredential' in window
  return isHere ? passkeys.rp_id : undefined
}

/** Her passkeys, including removed ones; none if the authority is older than this page. */
export async function passkeysOf(access: Access): Promise<Passkey[]> {
  try {
    return await askAll<Passkey>(access, 'owner/passkeys')
  } catch (error) {
    if (error instanceof ApiFault && error.status === 404) return []
    throw error
  }
}

/** Makes a passkey for her. Fails with a sentence if she cancels, or has one on this device already. */
export async function addPasskey(access: Access, name: string, known: readonly Passkey[]): Promise<Passkey> {
  const { nonce, exp, rp_id, user } = await options(access, 'passkey')
  if (user === undefined) throw new Error(W.notMade)
  const payload: RegistrationClaims = { use: 'passkey', owner: user.name, nonce, exp }
  const made = await credentialFrom(W.notMade, async () =>
    navigator.credentials.create({
      publicKey: {
        rp: { id: rp_id, name: WORDS.name },
        user: { id: bytes(user.id), name: user.name, displayName: user.name },
        challenge: await challengeOf(payload),
        pubKeyCredParams: [{ type: 'public-key', alg: ES256 }],
        // It can be found without her name when she signs in, and only she can use it.
        authenticatorSelection: {
          residentKey: 'required',
          requireResidentKey: true,
          userVerification: 'required',
        },
        attestation: 'none',
        excludeCredentials: known.map(described),
      },
    }),
  )
  const response = made.response as AuthenticatorAttestationResponse
  const webauthn = {
    id: made.id,
    authenticatorData: base64url(new Uint8Array(response.getAuthenticatorData())),
    clientDataJSON: base64url(new Uint8Array(response.clientDataJSON)),
  }
  return ask<Passkey>(access, { method: 'POST', path: 'owner/passkeys', body: { name, payload, webauthn } })
}

/** A new key of this browser, which one of her passkeys lets in; it is stored in place of any other. */
export async function signInByPasskey(at: Omit<Access, 'proof'>, name: string): Promise<BrowserKey> {
  const key = await makeKey(name)
  const access: Access = { ...at, proof: { by: 'key', key } }
  const { nonce, exp, rp_id } = await options(access, 'device-key')
  const payload: LoginClaims = { use: 'device-key', jkt: key.kid, nonce, exp }
  const webauthn = await assertionOf({ rpId: rp_id, challenge: await challengeOf(payload) })
  const body = { name, jwk: jwkOf(key), payload, webauthn }
  const { let_in } = await ask<LetInKey>(access, { method: 'POST', path: 'owner/passkeys/login', body })
  const enrolled: BrowserKey = { ...key, state: 'enrolled', endsAt: Date.parse(let_in.expires_at) }
  await keepKey(enrolled)
  return enrolled
}

/** The claims with the signature of that passkey, as a decision takes it. */
export async function signByPasskey(
  passkey: Passkey,
  payload: JsonObject,
): Promise<{ payload: JsonObject; webauthn: Assertion }> {
  const { rp_id: rpId } = passkey
  const allowCredentials = [described(passkey)]
  const webauthn = await assertionOf({ rpId, challenge: await challengeOf(payload), allowCredentials })
  return { payload, webauthn }
}

async function options(access: Access, use: PasskeyOptions['use']): Promise<PasskeyOptions> {
  // For the device key, nobody needs to know the owner yet: her passkey says that afterwards.
  const asking: Access = use === 'device-key' ? { ...access, proof: { by: 'nobody' } } : access
  return ask<PasskeyOptions>(asking, { method: 'POST', path: 'owner/passkeys/options', body: { use } })
}

async function assertionOf(
  of: Pick<PublicKeyCredentialRequestOptions, 'rpId' | 'challenge' | 'allowCredentials'>,
): Promise<Assertion> {
  const publicKey = { ...of, userVerification: 'required' } as const
  const credential = await credentialFrom(W.notSigned, () => navigator.credentials.get({ publicKey }))
  const { authenticatorData, clientDataJSON, signature } =
    credential.response as AuthenticatorAssertionResponse
  const text = (buffer: ArrayBuffer): string => base64url(new Uint8Array(buffer))
  return {
    id: credential.id,
    authenticatorData: text(authenticatorData),
    clientDataJSON: text(clientDataJSON),
    signature: text(signature),
  }
}

/** Browsers say little about why there is no answer, so that no page learns which passkeys exist. */
async function credentialFrom(
  no: string,
  act: () => Promise<Credential | null>,
): Promise<PublicKeyCredential> {
  let credential: Credential | null
  try {
    credential = await act()
  } catch (cause) {
    const isThere = cause instanceof DOMException && cause.name === 'InvalidStateError'
    throw new Error(isThere ? W.isThere : no, { cause })
  }
  if (credential === null) throw new Error(no)
  return credential as PublicKeyCredential
}

async function challengeOf(claims: JsonObject): Promise<Uint8Array<ArrayBuffer>> {
  return utf8(await sha256(canonicalize(claims)))
}

function described({ id }: Passkey): PublicKeyCredentialDescriptor {
  return { type: 'public-key', id: bytes(id) }
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  const read = bytesOfBase64url(text)
  if (read === undefined) throw new Error(W.notMade)
  return read
}
