/**
 * An owner API on the wire that checks who asks, as the real one does, and answers as a test scripts it:
 * pages, refusals, streams that break.
 */
import { verifyRequest } from '../../src/wire/signatures/http-signature.ts'
import type { PublicKey } from '../../src/wire/signatures/keys.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { startScriptedServer, type Received, type Reply, type ScriptedServer } from './scripted-http.ts'

export interface ScriptedOwnerApi extends ScriptedServer {
  /** Signatures accepted so far. */
  signatures: Set<string>
}

/**
 * Starts it for one enrolled device key. `plain` answers what was signed as it must be: over the issuer's
 * authority, with a digest of the body, under the key's thumbprint, and never twice the same.
 */
export async function startScriptedOwnerApi(
  enrolled: { issuer: string; key: PublicKey },
  plain: (received: Received) => Reply | undefined,
): Promise<ScriptedOwnerApi> {
  const signatures = new Set<string>()
  const server = await startScriptedServer(received => {
    try {
      const { signature } = verify(received, enrolled)
      const text = signature.toString('hex')
      if (signatures.has(text)) return refused('This signature was presented before.')
      signatures.add(text)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return refused(error.detail ?? error.code)
    }
    return plain(received)
  })
  return { ...server, signatures }
}

function refused(error_description: string): Reply {
  return { status: 401, body: { error: 'invalid_credential', error_description } }
}

function verify(received: Received, enrolled: { issuer: string; key: PublicKey }): { signature: Buffer } {
  const issuer = new URL(enrolled.issuer)
  return verifyRequest(
    {
      method: received.method,
      scheme: issuer.protocol === 'http:' ? 'http' : 'https',
      authority: issuer.host,
      path: received.path,
      query: received.query,
      headers: received.lines,
      body: received.body,
    },
    {
      // Sent empty and covered: the verifier has no reading of its own for an absent one.
      requiredComponents: ['@method', '@authority', '@path', 'authorization'],
      mustCoverDigest: true,
      keyidRequired: true,
      now: Math.floor(Date.now() / 1000),
      findKey: keyid => (keyid === enrolled.key.thumbprint ? enrolled.key : undefined),
    },
  )
}
