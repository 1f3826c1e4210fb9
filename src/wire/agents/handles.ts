/**
 * Owns the handle of an agent that signs with a bare key, `jkt:` + RFC 7638 thumbprint; `agent-identity.ts`
 * owns the others, which hold an `@`. Contract: "Connection" (handles).
 */
import { asHandle, type Handle } from '../identifiers.ts'

/** The pseudonymous handle of a key. */
export function thumbprintHandle({ thumbprint }: { thumbprint: string }): Handle {
  return asHandle(`jkt:${thumbprint}`)
}

/** The thumbprint in a pseudonymous handle; undefined if it is none. */
export function thumbprintIn(handle: string): string | undefined {
  return /^jkt:([\w-]{43})$/.exec(handle)?.[1]
}
