/**
 * Administrators of owners who log in at a real OpenID provider: contract, "Authentication" (access tokens of
 * the realm that is configured, and of no other).
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { describe, expect, it } from 'vitest'
import { startAuthority } from '../../src/authority/main.ts'
import { readAuthorityConfig } from '../../src/config.ts'
import { exchange, onUndeclared, startTestAuthority } from '../support/authority.ts'
import { AUDIENCE, startRealm } from '../support/realm.ts'
import { startedOnce } from '../support/started.ts'

const stand = startedOnce(async () => {
  const realm = await startRealm()
  const authority = await startTestAuthority()
  const directory = mkdtempSync(join(tmpdir(), 'usher-administrators-'))
  const file = join(directory, 'administrators.yaml')
  writeFileSync(file, stringify({ administrators: [{ name: 'Olga', subjects: ['olga@firm'] }] }))
  const environment = {
    ...authority.environment,
    UMA_AS_ADMIN_LISTEN: '127.0.0.1:0',
    UMA_AS_ADMINISTRATORS: file,
    UMA_AS_ADMIN_AUTH: 'oidc',
    UMA_AS_ADMIN_OIDC_ISSUER: realm.issuer,
    UMA_AS_ADMIN_OIDC_AUDIENCE: AUDIENCE,
    UMA_DEV_LOOPBACK: 'true',
  }
  const running = await startAuthority(readAuthorityConfig(environment), { onUndeclared })
  const ask = (method: string, target: string, token: string, json?: object) =>
    exchange({
      url: `http://${running.adminAddress}${target}`,
      method,
      headers: { authorization: `Bearer ${token}`, ...(json && { 'content-type': 'application/json' }) },
      body: json && JSON.stringify(json),
    })
  const close = async (): Promise<void> => {
    await running.close()
    await authority.close()
    await realm.close()
    rmSync(directory, { recursive: true })
  }
  return { realm, authority, ask, close }
})

describe('An administrator who logs in at the realm', () => {
  it('adds and suspends an owner, whose ledger names the administrator', async () => {
    const { access_token } = await stand.realm.login('olga@firm')
    expect((await stand.ask('POST', '/admin/owners', access_token, { owner: 'bea' })).status).toBe(201)
    const suspended = await stand.ask('POST', '/admin/owners/bea/suspend', access_token, {})
    expect([suspended.status, suspended.body.state]).toEqual([200, 'suspended'])
    const { rows } = await stand.authority.database.pool.query<{ data: unknown }>(
      `SELECT data FROM ledger WHERE owner = 'bea' AND kind = 'suspended'`,
    )
    expect(rows).toEqual([{ data: { by: 'authority', actor: { kind: 'authority', admin: 'Olga' } } }])
  })

  it('is refused as another person, with an ID token, for another audience, and after the token expired', async () => {
    const { realm } = stand
    const good = realm.claims('olga@firm')
    const refused = {
      another: (await realm.login('mallory@firm')).access_token,
      'ID token': (await realm.login('olga@firm')).id_token,
      audience: await realm.sign({ ...good, aud: 'https://other.example' }),
      expired: await realm.sign({ ...good, exp: Math.floor(Date.now() / 1_000) - 300 }),
    }
    expect((await stand.ask('GET', '/admin/owners', await realm.sign(good))).status).toBe(200)
    for (const [what, token] of Object.entries(refused)) {
      const { status } = await stand.ask('GET', '/admin/owners', token)
      expect([what, status]).toEqual([what, 401])
    }
  })

  it('is told of an outage, and of no denial, while the keys of the realm cannot be had', async () => {
    const { realm } = stand
    await realm.rotate()
    const { access_token } = await realm.login('olga@firm')
    await realm.goAway()
    expect((await stand.ask('GET', '/admin/owners', access_token)).status).toBe(503)
    await realm.comeBack()
  })
})
