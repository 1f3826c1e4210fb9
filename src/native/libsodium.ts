/**
 * Owns the native Ed25519 check, if there is one for this machine. Contract: "Algorithms". It is passed to
 * `wire`, which imports no native code. Without it, node:crypto verifies signatures, more slowly but with the
 * same answers (docs/decisions/0019-ed25519-by-libsodium.md).
 */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import {
  generatePrivateJwk,
  importPrivateJwk,
  signEd25519,
  verifyEd25519By,
  type Ed25519Check,
} from '../wire/signatures/keys.ts'

/** Which library verifies signatures in this process; `why` says why it is not libsodium. */
export type VerifiedBy = { ed25519: 'libsodium' } | { ed25519: 'node:crypto'; why: string }

/**
 * The function of the package's binary that is called: each byte string is passed as its buffer, offset and
 * length.
 */
interface SodiumBinding {
  crypto_sign_verify_detached(
    ...bytes: [
      ArrayBufferLike,
      number,
      number,
      ArrayBufferLike,
      number,
      number,
      ArrayBufferLike,
      number,
      number,
    ]
  ): unknown
}

const require = createRequire(import.meta.url)
const MACHINE = `${process.platform}-${process.arch}`
const BINARY = join(MACHINE, 'sodium-native.node')

/**
 * Makes libsodium verify signatures from now on, if the package `sodium-native` has a binary for this machine
 * that works correctly. Throws nothing. But a truncated or overwritten file runs like any other code, and may
 * end the process before it serves.
 */
export function useLibsodium(): VerifiedBy {
  let why = `sodium-native is not installed, or has no binary for ${MACHINE}`
  for (const place of [besideTheBundle, inThePackage]) {
    try {
      const check = checkOf(require(place()) as SodiumBinding)
      assertThatItWorks(check)
      verifyEd25519By(check)
      return { ed25519: 'libsodium' }
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code !== 'MODULE_NOT_FOUND') why = message.slice(0, 200)
    }
  }
  return { ed25519: 'node:crypto', why }
}

/** Where the image has it (rolldown.config.js). */
const besideTheBundle = (): string => join(import.meta.dirname, 'native', BINARY)
/**
 * The package's own entry is not used, because it finds its binary with a dozen packages that neither the
 * image nor a call needs.
 */
const inThePackage = (): string =>
  join(dirname(require.resolve('sodium-native/package.json')), 'prebuilds', BINARY)

/** The check as the binary has it. */
function checkOf(binding: SodiumBinding): Ed25519Check {
  return (signature, bytes, key) =>
    binding.crypto_sign_verify_detached(
      signature.buffer,
      signature.byteOffset,
      signature.byteLength,
      bytes.buffer,
      bytes.byteOffset,
      bytes.byteLength,
      key.buffer,
      key.byteOffset,
      key.byteLength,
    ) === true
}

/**
 * A signature in which the signer added a point of small order to R (test/native/edwards.ts). A library that
 * verifies with the cofactor accepts it, and would disagree with node:crypto (docs/choices.md).
 */
const COFACTORED = {
  key: Buffer.from('MgWIIXTjIb2bdGXLOzrvcRPCixJp4AgTm7nx2yHmF3U=', 'base64'),
  bytes: Buffer.from('usher'),
  signature: Buffer.from(
    'ylRuLjwonzyjE/vAzYSg4Hv3KQu6qkrp9DPACknX6mZBLW4eTArr6SxIJh+I83Ve9fdnn8hJRliHwHGIM036Ag==',
    'base64',
  ),
}

function assertThatItWorks(check: Ed25519Check): void {
  if (check(COFACTORED.signature, COFACTORED.bytes, COFACTORED.key))
    throw new Error('the binary of sodium-native verifies signatures otherwise than node:crypto')
  const key = importPrivateJwk(generatePrivateJwk())
  const other = importPrivateJwk(generatePrivateJwk())
  const bytes = Buffer.from('usher')
  const signature = signEd25519(bytes, key)
  const holds = check(signature, bytes, key.bytes)
  if (!holds || check(signature, bytes, other.bytes) || check(signature, Buffer.from('other'), key.bytes))
    throw new Error('the binary of sodium-native does not verify signatures')
}
