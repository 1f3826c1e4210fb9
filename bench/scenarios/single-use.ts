/**
 * Measures an authorized call under a single-use grant: introspected and consumed. The grants are signed by
 * the authority's own code with its own key, and inserted as it would insert them, only many at once, because
 * the owner's approvals are not measured.
 */
import { readFileSync } from 'node:fs'
import { Pool } from 'pg'
import type { GrantContent, SignedGrant } from '../../src/rules/grant-content.ts'
import { signGrant } from '../../src/surface/token/grant.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import { importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { newFamily } from '../../src/wire/negotiation/ticket.ts'
import { checkLoad, type Corpus } from '../load/check-load.ts'
import { checkOf } from '../load/corpus.ts'
import type { KnownAgent, Scenario, World } from '../world.ts'

const TOOL = 'place_trade'
const LIFETIME_SECONDS = 300
const ROWS_PER_INSERT = 1_000

export const singleUse: Scenario = {
  name: 'single_use',
  title: 'authorized single-use call',
  processes: 1,
  reported: true,
  open: (world, share) => checkLoad([world.ports.sidecar], share, singleUseCorpus(world)),
}

function singleUseCorpus(world: World): Corpus {
  const pool = new Pool({ connectionString: world.databaseUrl, max: 1 })
  const agents = world.agents.map(agent => ({ agent, key: importPrivateJwk(agent.jwk) }))
  const sign = grantSigner(world)
  return {
    spent: true,
    make: async calls => {
      const made = Array.from({ length: calls }, (_, n) => {
        const { agent, key } = agents[n % agents.length]!
        const trade = { symbol: 'VTI', quantity: n + 1, account: 'account-7' }
        const { row, rpt } = sign(agent, key, trade)
        return { row, check: checkOf(world, { key, rpt, call: { tool: TOOL, arguments: trade } }) }
      })
      for (let at = 0; at < made.length; at += ROWS_PER_INSERT)
        await insertGrants(
          pool,
          made.slice(at, at + ROWS_PER_INSERT).map(({ row }) => row),
        )
      return made.map(({ check }) => check)
    },
  }
}

type Row = GrantContent & SignedGrant & { generation: number; tier_id: string; tier_epoch: number }

function grantSigner(world: World) {
  const { keys } = JSON.parse(readFileSync(world.authorityKeysFile, 'utf8')) as { keys: unknown[] }
  const now = (): number => Math.floor(Date.now() / 1_000)
  const signer = { issuer: world.issuer, keys: [importPrivateJwk(keys[0])] as const, now }
  return (
    agent: KnownAgent,
    key: PrivateKey,
    params: Record<string, string | number>,
  ): { row: Row; rpt: string } => {
    const agreement = `agreement of ${agent.handle}`
    const content: GrantContent = {
      owner: world.owner,
      family: newFamily(),
      handle: agent.handle,
      client_id: world.clientId,
      aud: world.resource,
      resource_id: `${world.owner}/trades`,
      scopes: ['trade'],
      expires_in: LIFETIME_SECONDS,
      template_id: `${world.owner}/trading/v1`,
      terms_uri: `${world.issuer}/terms/${world.owner}/trading/v1`,
      consequence: 'irreversible',
      single_use: true,
      operation: { tool: TOOL, params_s256: s256Json(params) },
      agreement_jws: agreement,
      agreement: s256(agreement),
      echo_absent: [],
      cnf: { kty: 'OKP', crv: 'Ed25519', x: key.x },
      jkt: key.thumbprint,
    }
    const { signed, body } = signGrant(signer, content)
    const row = { ...content, ...signed, generation: agent.generation, tier_id: 'trading', tier_epoch: 1 }
    return { row, rpt: body.access_token }
  }
}

/** As `recordGrant` of the storage writes one, for many, each with its receipt. */
async function insertGrants(pool: Pool, rows: Row[]): Promise<void> {
  await pool.query(
    `WITH given AS (SELECT * FROM json_to_recordset($1) AS r(owner text, rpt text, jti text, family text, handle text,
       generation int, client_id text, aud text, resource_id text, tier_id text, tier_epoch int, single_use boolean,
       claims json, receipt text, "expiresAt" float8)),
     receipt AS (
       INSERT INTO receipts (owner, jti, family, handle, receipt) SELECT owner, jti, family, handle, receipt FROM given),
     placed AS (
       INSERT INTO receipt_positions (owner, jti) SELECT owner, jti FROM given)
     INSERT INTO grants (owner, rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id,
       tier_id, tier_epoch, hold, single_use, claims, expires_at)
     SELECT owner, decode(rpt, 'hex'), jti, family, handle, generation, client_id, aud, resource_id,
       tier_id, tier_epoch, hold, single_use, claims, to_timestamp("expiresAt")
     FROM given JOIN tier_resources USING (owner, tier_id, resource_id)`,
    [JSON.stringify(rows.map(({ rptSha256, ...row }) => ({ ...row, rpt: rptSha256.toString('hex') })))],
  )
}
