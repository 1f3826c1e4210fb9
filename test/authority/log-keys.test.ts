/** The keys of the log: docs/choices.md, "Checkpoints of the ledger". */
import { describe, expect, it } from 'vitest'
import { withLogKeys } from '../support/log-keys.ts'
import { authorityStand } from '../support/stands.ts'

const log = withLogKeys()

describe('An authority with keys of the log', () => {
  const authority = authorityStand({ environment: log.environment })

  it('publishes all of them at ledger_jwks_uri, in their order, and without their private halves', async () => {
    const metadata = await authority.request('GET', '/.well-known/agents-configuration')
    expect(metadata.body.ledger_jwks_uri).toBe('https://as.example/ledger/jwks')
    const { status, body, headers } = await authority.request('GET', '/ledger/jwks')
    expect(status).toBe(200)
    expect(body).toEqual({
      keys: log.keys.map(({ x, kid }) => ({ kty: 'OKP', crv: 'Ed25519', x, kid, alg: 'EdDSA', use: 'sig' })),
    })
    expect(headers.get('cache-control')).toBe('public, max-age=300')
  })

  it('has none of them among the keys of its tokens', async () => {
    const { body } = await authority.request('GET', '/jwks')
    const others = (body.keys as { x: string }[]).map(({ x }) => x)
    expect(others).toHaveLength(2)
    expect(log.keys.filter(({ x }) => others.includes(x))).toEqual([])
  })
})

describe('An authority without keys of the log', () => {
  const authority = authorityStand()

  it('sends nothing of it: no member of the metadata, and nothing at its path', async () => {
    const metadata = await authority.request('GET', '/.well-known/agents-configuration')
    expect(Object.keys(metadata.body).filter(name => name.includes('ledger'))).toEqual([])
    const { status, body } = await authority.request('GET', '/ledger/jwks')
    expect([status, body.error]).toEqual([404, 'not_found'])
  })
})
