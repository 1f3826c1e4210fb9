/**
 * Measures the least that a negotiation costs, in one process: two signatures, two verifications, and five
 * commits of a single row each to the same Postgres, one after the other, over as many connections as the
 * authority has.
 */
import { randomBytes } from 'node:crypto'
import { Pool } from 'pg'
import {
  generatePrivateJwk,
  importPrivateJwk,
  signEd25519,
  verifyEd25519,
} from '../../src/wire/signatures/keys.ts'
import type { Scenario } from '../world.ts'

/** About what an RPT, an agreement or a receipt has. */
const SIGNED_BYTES = 800
const COMMITS = 5
const INSERT = { name: 'bare', text: 'INSERT INTO bench_rows (payload) VALUES ($1)' }

export const bareNegotiation: Scenario = {
  name: 'negotiation_bare',
  title: '2 signatures, 2 verifications, 5 commits',
  processes: 1,
  reported: false,
  open: async world => {
    const pool = new Pool({ connectionString: world.databaseUrl, max: world.poolMax })
    await pool.query(
      'CREATE TABLE IF NOT EXISTS bench_rows (id bigserial PRIMARY KEY, payload bytea NOT NULL)',
    )
    const key = importPrivateJwk(generatePrivateJwk())
    const payload = randomBytes(SIGNED_BYTES)
    const negotiate = async (): Promise<void> => {
      for (let n = 0; n < 2; n++) {
        const signature = signEd25519(payload, key)
        if (!verifyEd25519(payload, signature, key)) throw new Error('a signature did not verify')
      }
      for (let n = 0; n < COMMITS; n++) {
        const { rowCount } = await pool.query({ ...INSERT, values: [payload] })
        if (rowCount !== 1) throw new Error('a row was not inserted')
      }
    }
    return { prepare: async () => {}, next: negotiate }
  },
}
