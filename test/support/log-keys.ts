/** Owns files with keys of the log, for authorities that sign checkpoints. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  generatePrivateJwk,
  importPrivateJwk,
  type PrivateJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'

/** The environment of an authority with keys of the log, of which the first signs, and the keys. */
export function withLogKeys(jwks: readonly PrivateJwk[] = [generatePrivateJwk(), generatePrivateJwk()]): {
  environment: Record<string, string>
  keys: PrivateKey[]
} {
  const file = join(mkdtempSync(join(tmpdir(), 'usher-log-keys-')), 'log-keys.json')
  writeFileSync(file, JSON.stringify({ keys: jwks }), { mode: 0o600 })
  return { environment: { UMA_AS_LOG_KEYS_FILE: file }, keys: jwks.map(jwk => importPrivateJwk(jwk)) }
}
