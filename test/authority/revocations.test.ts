/**
 * Signed revocations: docs/choices.md, "Revocations that prove themselves". Contract: "What the service does"
 * (row 9: revocation is immediate), "Owner API".
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { s256Json } from '../../src/wire/encoding.ts'
import { verifyLedgerHead } from '../../src/wire/ledger/ledger-head.ts'
import { ENDED_NAMED_MAX, verifyRevocation } from '../../src/wire/ledger/revocation.ts'
import { asHandle, type Handle } from '../../src/wire/identifiers.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { connected } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { authorityStand } from '../support/stands.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'

const log = withLogKeys()
const authority = authorityStand({ environment: { ...log.environment, UMA_AS_SWEEP_SECONDS: '1' } })
const without = authorityStand()

type Answer = Record<string, unknown> & { revocation_jti: string; revocation: string | null }
const own = async (method: 'GET' | 'POST', target: string, json?: object, at = authority) => {
  const { status, body } = await at.call(at.alice, { method, target, ...(json && { json }) })
  expect(status, target).toBe(200)
  return body as Answer
}
const revoke = (handle: Handle, at = authority) => own('POST', '/owner/connections/revoke', { handle }, at)
const verified = (jwt: string | null) =>
  verifyRevocation(jwt!, authority.config.keys, {
    issuer: authority.issuer,
    now: Math.floor(Date.now() / 1_000) + 5,
  })
const entriesOf = async (kind: string, jti: string) => {
  const { entries } = (await own('GET', `/owner/ledger?kind=${kind}&limit=1000`)) as unknown as {
    entries: { seq: number; ts: string; jti?: string }[]
  }
  return entries.filter(entry => entry.jti === jti)
}
const agentOf = async () => {
  const agent = testAgent(authority)
  return { agent, ...(await agent.granted()) }
}
/** As if the act were long ago, and its replica had ended before it signed. */
const leftUnsigned = (jti: string) =>
  sql`UPDATE revocations SET jwt = NULL, done_at = done_at - interval '1 minute' WHERE jti = ${jti}`.execute(
    authority.database.db,
  )

describe('The answer to a revoke', () => {
  it('has a revocation that names what ended, its entry in the ledger, and a signed head that covers it', async () => {
    const { agent, rpt } = await agentOf()
    const before = await protectionCall(authority, '/introspect', { token: rpt })
    const { ends: known } = (before.body as { judged: { ends: number } }).judged
    const answer = await revoke(agent.handle)
    const claims = verified(answer.revocation)
    const [entry] = await entriesOf('revoked', answer.revocation_jti)
    expect(claims).toMatchObject({
      iss: authority.issuer,
      owner: 'alice',
      jti: answer.revocation_jti,
      iat: Math.floor(Date.parse(entry!.ts) / 1_000),
      ends: known + 1,
      ended: [agent.handle],
      seq: entry!.seq,
    })
    expect(entry).toMatchObject({ handle: agent.handle, ends: claims.ends, ended: [agent.handle] })
    expect(claims.at).toBeGreaterThanOrEqual(Date.parse(entry!.ts))
    expect(verifyLedgerHead(claims.ledger_head, log.keys).size).toBeGreaterThanOrEqual(claims.seq)
  })

  it('waits for a head that covers its entry, where one was signed less than a second ago', async () => {
    const { agent } = await agentOf()
    await revoke((await agentOf()).agent.handle)
    await sql`UPDATE ledger_checkpoints SET signed_at = clock_timestamp() WHERE owner = 'alice'`.execute(
      authority.database.db,
    )
    const { ledger_head, seq } = verified((await revoke(agent.handle)).revocation)
    expect(ledger_head.size).toBeGreaterThanOrEqual(seq)
  })

  it('has the same revocation if it is repeated, and GET has it later', async () => {
    const { agent } = await agentOf()
    const { revocation_jti: jti, revocation } = await revoke(agent.handle)
    expect(verified(revocation)).toMatchObject({ jti })
    expect(await revoke(agent.handle)).toMatchObject({
      revocation_jti: jti,
      revocation,
      connections_revoked: 0,
    })
    expect(await own('GET', `/owner/revocations/${jti}`)).toEqual({ revocation_jti: jti, revocation })
    expect(await entriesOf('revoked', jti)).toHaveLength(1)
  })

  it('has no earlier revocation, if the agent was let in again since and ended otherwise', async () => {
    const { agent } = await agentOf()
    const { revocation_jti: first } = await revoke(agent.handle)
    await agent.granted()
    const { revocation_jti: second } = await revoke(agent.handle)
    expect(second).not.toBe(first)
    await agent.granted()
    await own('POST', '/owner/connections/block', { handle: agent.handle })
    expect(await revoke(agent.handle)).not.toHaveProperty('revocation_jti')
  })

  it('has none where there are no keys of the log, nor does its entry say anything of it', async () => {
    const agent = testAgent(without)
    await agent.granted()
    expect(await revoke(agent.handle, without)).not.toHaveProperty('revocation_jti')
    const { entries } = (await own('GET', '/owner/ledger?kind=revoked', undefined, without)) as unknown as {
      entries: object[]
    }
    expect(entries.length).toBeGreaterThan(0)
    for (const entry of entries) expect(entry).not.toHaveProperty('ended')
    const missing = await without.call(without.alice, { target: '/owner/revocations/rev_x' })
    expect(missing.status).toBe(404)
  })

  it('is 200 with null if a head cannot be signed in time, and the revocation is signed later', async () => {
    const { agent } = await agentOf()
    const rename = (from: string, to: string): Promise<void> =>
      connected(authority.database.url, async client => {
        await client.query(`ALTER TABLE ${from} RENAME TO ${to}`)
      })
    await rename('ledger_checkpoints', 'checkpoints_away')
    const answering = revoke(agent.handle)
    await answering.catch(() => undefined)
    await rename('checkpoints_away', 'ledger_checkpoints')
    const answer = await answering
    expect(answer).toMatchObject({ status: 'revoked', connections_revoked: 1, revocation: null })
    const target = `/owner/revocations/${answer.revocation_jti}`
    // Somebody else might still wait for sidecars.
    expect(await own('GET', target)).toMatchObject({ revocation: null })
    await leftUnsigned(answer.revocation_jti)
    expect(verified((await own('GET', target)).revocation)).toMatchObject({ ended: [agent.handle] })
  })
})

describe('The answer to a block of an operator', () => {
  it('has a revocation over the entry of the block, with every handle that ended, or their hash if they are many', async () => {
    const { db } = authority.database
    const { owner } = authority.alice
    for (const count of [2, ENDED_NAMED_MAX + 1]) {
      const operator = `https://operator-${count}.example`
      const handles = Array.from({ length: count }, (_, n) => asHandle(`jkt:of-${count}-${n}`))
      for (const handle of handles) await seed.seedConnection(db, owner, handle, { operator })
      const answer = await own('POST', '/owner/operators/block', { origin: operator })
      const claims = verified(answer.revocation)
      const [entry] = (await entriesOf('blocked', answer.revocation_jti)) as unknown as [{ ended: Handle[] }]
      expect(new Set(entry.ended)).toEqual(new Set(handles))
      if (count <= ENDED_NAMED_MAX) expect(claims.ended).toEqual(entry.ended)
      else expect([claims.ended, claims.ended_s256]).toEqual([undefined, s256Json(entry.ended)])
    }
  })
})

describe('A revocation that a replica left unsigned', () => {
  const storedOf = async (jti: string) => {
    const { rows } = await sql<{
      jwt: string | null
    }>`SELECT jwt FROM revocations WHERE jti = ${jti}`.execute(authority.database.db)
    return rows[0]!.jwt
  }
  const sweepNow = () =>
    sql`UPDATE due SET at = now() WHERE owner = 'alice' AND kind = 'sweep'`.execute(authority.database.db)

  it('is signed by whoever sweeps', async () => {
    const { agent } = await agentOf()
    const { revocation_jti: jti } = await revoke(agent.handle)
    await leftUnsigned(jti)
    expect(await storedOf(jti)).toBeNull()
    await sweepNow()
    await expect.poll(() => storedOf(jti)).not.toBeNull()
    expect(verified(await storedOf(jti))).toMatchObject({ jti })
  })

  it('and whose entry the retention has deleted keeps no later one from being signed', async () => {
    const [first, second] = [await agentOf(), await agentOf()]
    const { revocation_jti: gone } = await revoke(first.agent.handle)
    const { revocation_jti: jti } = await revoke(second.agent.handle)
    await sql`UPDATE revocations SET entry_id = 0 WHERE jti = ${gone}`.execute(authority.database.db)
    await leftUnsigned(gone)
    await leftUnsigned(jti)
    await sweepNow()
    await expect.poll(() => storedOf(jti)).not.toBeNull()
    expect(await storedOf(gone)).toBeNull()
  })
})
