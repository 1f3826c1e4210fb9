/**
 * Owns the database of a tally for tests of its statements: one account of three holders, and negotiations
 * over its savings, as far as a test wants them.
 */
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { advance, type QuestionResult } from '../../src/storage/tally/answers.ts'
import { putMandate, putRegistered, type AccountRegistry } from '../../src/storage/tally/accounts.ts'
import { TALLY_DATABASE, type Database } from '../../src/storage/tally/database.ts'
import { recordGrant, type NewTallyGrant } from '../../src/storage/tally/grants.ts'
import { holdNegotiation, openNegotiation } from '../../src/storage/tally/negotiations.ts'
import type { PendingAgreement } from '../../src/storage/tally/tables.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asClientId, asFamily, asOwner, type Family } from '../../src/wire/identifiers.ts'
import type { Mandate } from '../../src/wire/joint/mandate.ts'
import { TALLY } from './joint.ts'
import { openedDatabase, PATIENT } from './postgres.ts'

export const ACCOUNT = asOwner('family-1')
export const TOOLS = asClientId('family-tools')
export const RESOURCE = 'family-1/savings'
const TOOLS_URI = 'https://tools.example/mcp/family-1'
export const ISSUER = 'https://as.holders.test'
export const HOLDERS = ['bea', 'carl', 'dora'].map(asOwner)

/** Two of the three must allow, or as `changes` say. */
export const mandateOf = (changes: Partial<Mandate> = {}): Mandate => ({
  account: ACCOUNT,
  tally: TALLY,
  resources: ['family-1/*'],
  holders: HOLDERS.map(owner => ({ owner, issuer: ISSUER, weight: 1 })),
  rule: { kind: 'threshold', threshold: 2 },
  ...changes,
})

/** What is registered below it. */
export const REGISTERED: AccountRegistry = {
  resource_servers: [{ client_id: TOOLS, resource_uri: TOOLS_URI, secret_sha256: randomBytes(32) }],
  resources: [
    {
      resource_id: RESOURCE,
      client_id: TOOLS,
      name: 'Savings',
      type: null,
      resource_scopes: ['read'],
      consequence: null,
      tools: null,
    },
  ],
}

/** A migrated database with that account; `close` drops it. */
export async function tallyDatabase(): Promise<Database> {
  const database = await openedDatabase('tally', url => TALLY_DATABASE.open({ url, poolMax: 40, ...PATIENT }))
  const { db } = database
  await inTransaction(db, async tx => {
    await putMandate(tx, mandateOf(), 'tag')
    await putRegistered(tx, ACCOUNT, REGISTERED)
  })
  return database
}

/** A negotiation in which all three are to be asked, under that version of the mandate. */
export async function waiting({ db }: Database, version = 1): Promise<Family> {
  const family = asFamily(`fam_${randomBytes(8).toString('hex')}`)
  await openNegotiation(db, {
    account: ACCOUNT,
    family,
    state: 'need_info',
    client_id: TOOLS,
    resource_id: RESOURCE,
    resource_scopes: ['read'],
    version,
    template: null,
    sealedExpiresAt: seconds() + 300,
    ticketHash: null,
    ticketSeconds: 300,
    negotiationSeconds: 3_600,
  })
  const { holders } = mandateOf()
  const held = { content: {}, named: null } as unknown as PendingAgreement
  const ticketHash = randomBytes(32)
  await holdNegotiation(db, {
    account: ACCOUNT,
    family,
    version,
    held,
    ticketHash,
    awaitingSeconds: 300,
    holders,
  })
  return family
}

const seconds = (): number => Math.floor(Date.now() / 1_000)

/** Her answer, kept as the collector keeps it. */
export const answers = ({ db }: Database, family: Family, answered: QuestionResult) =>
  advance(db, { account: ACCOUNT, family }, { threshold: 2, answered })

/** What she allows, as it is kept. */
export const allows = (
  holder: (typeof HOLDERS)[number],
  verdict = `verdict of ${holder}`,
): QuestionResult => ({
  holder,
  issuer: ISSUER,
  state: 'allowed',
  verdict,
  verdict_exp: seconds() + 300,
  allowed_until: seconds() + 600,
})

/** One that bea and carl allowed, so that it may be collected. */
export async function approved(database: Database): Promise<Family> {
  const family = await waiting(database)
  for (const holder of HOLDERS.slice(0, 2)) await answers(database, family, allows(holder))
  return family
}

/** Makes the grant of it, as collecting does; `claims` are those that a statement reads. */
export async function granted(
  { db }: Database,
  family: Family,
  changes: Partial<NewTallyGrant> = {},
): Promise<{ outcome: Awaited<ReturnType<typeof recordGrant>>; rptSha256: Buffer }> {
  const grant: NewTallyGrant = {
    account: ACCOUNT,
    rptSha256: randomBytes(32),
    jti: `rpt_${randomBytes(8).toString('hex')}`,
    family,
    client_id: TOOLS,
    aud: TOOLS_URI,
    resource_id: RESOURCE,
    version: 1,
    single_use: true,
    claims: { sub: 'jkt:agent' } as NewTallyGrant['claims'],
    receipt: 'receipt',
    expiresAt: seconds() + 600,
    ...changes,
  }
  const weighs = (found: readonly { state: string; withdrawn: boolean }[]): boolean =>
    found.filter(({ state, withdrawn }) => state === 'allowed' && !withdrawn).length >= 2
  return { outcome: await recordGrant(db, grant, weighs), rptSha256: grant.rptSha256 }
}

/** Moves the times of a table's rows into the past. */
export async function age({ db }: Database, table: string, columns: string[], by: string): Promise<void> {
  const moved = columns.map(name => `${name} = ${name} - interval '${by}'`).join(', ')
  await sql.raw(`UPDATE ${table} SET ${moved}`).execute(db)
}

/** How many rows a table has. */
export async function count({ db }: Database, table: string): Promise<number> {
  const { rows } = await sql.raw<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`).execute(db)
  return rows[0]!.n
}
