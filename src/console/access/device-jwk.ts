/**
 * Owns the public half of a key that this page made, as it is enrolled. Contract: "Authentication".
 */

/**
 * The public half, as it is enrolled. It says that it was made in a page, so that a resource that pins it is
 * warned: whoever serves the page could use it.
 */
export function jwkOf({ x }: { x: string }): Record<'kty' | 'crv' | 'x' | 'surface', string> {
  return { kty: 'OKP', crv: 'Ed25519', x, surface: 'served' }
}
