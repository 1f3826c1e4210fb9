/**
 * Which calls were made of what she holds with others, and by which names a tally is known: contract, "Tally
 * for a jointly held resource" (on each holder's authorization server).
 */
import { describe, expect, it } from 'vitest'
import { verifyAccessesRequest } from '../../src/wire/joint/joint-accesses.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { parseJwks } from '../../src/wire/signatures/keys.ts'
import { ALIAS, TYP } from '../../src/wire/names.ts'
import { ACCOUNT, startJointStand, type JointStand } from '../support/joint-holder.ts'
import { startedForEach, startedOnce } from '../support/started.ts'
import { askedOf } from '../support/tally-requests.ts'

const PAGE = {
  accesses: [
    {
      n: 3,
      at: '2026-01-02T03:04:05.000Z',
      client_id: 'family-tools',
      resource_id: `${ACCOUNT}/savings`,
      agent: 'jkt:agent',
      family: 'fam_1',
      tool: 'read',
      summary: null,
    },
  ],
  next: 3,
}
const AT = `/joint/accesses/${ACCOUNT}`

describe('Calls of what she holds with others', () => {
  const stand = startedForEach(() => startJointStand())
  const reads = (query = '', who = stand.bea) =>
    stand.own('GET', `/${ACCOUNT}/accesses${query}`, undefined, who)

  it('are asked of its tally in her name, signed by her server, and shown as it has them', async () => {
    stand.server.script(AT, { body: PAGE })
    await stand.agreed()
    const { status, body } = await reads('?before=9&limit=1')
    expect([status, body]).toEqual([200, PAGE])
    const [asked] = stand.server.to(AT)
    expect(asked!.query).toBe('before=9&limit=1')
    const keys = parseJwks((await stand.authority.request('GET', '/jwks')).body)
    const now = Math.floor(Date.now() / 1_000)
    const expected = { issuer: stand.authority.issuer, audience: stand.tally, now }
    const token = asked!.headers.authorization!.replace('Bearer ', '')
    expect(verifyAccessesRequest(token, keys, expected)).toMatchObject({ holder: 'bea', account: ACCOUNT })
  })

  it('are those of an account that she holds: 404 for any other, of which nobody is asked', async () => {
    expect((await reads()).status).toBe(404)
    await stand.agreed()
    await stand.own('DELETE', `/${ACCOUNT}`)
    expect((await reads()).status).toBe(404)
    expect(stand.server.to(AT)).toEqual([])
  })

  it.each([
    ['does not tell her', { status: 401, body: {} }, 502],
    ['is out', { status: 503, body: {} }, 503],
    ['answers something else', { body: { accesses: [{ n: 'three' }], next: null } }, 502],
  ])('where the tally %s: %#', async (_name, reply, status) => {
    stand.server.script(AT, reply)
    await stand.agreed()
    expect((await reads()).status).toBe(status)
  })
})

describe('What a tally says', () => {
  const listed = [ALIAS.tallyRequestTyp, ALIAS.tally, ALIAS.mandateEndpoint].join(',')
  const plain = startedOnce(() => startJointStand())
  const aliased = startedOnce(() => startJointStand({ environment: { UMA_AS_ALIASES: listed } }))

  /** What a quote is answered under this `typ`. */
  async function quoted(stand: JointStand, typ: string): Promise<number> {
    const request = signJws({ typ, payload: askedOf(stand) }, stand.tallyKey)
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ request })
    return (await stand.authority.request('POST', '/joint/quote', { headers, body })).status
  }

  it('is taken under another name where that is listed, and under the contract’s always', async () => {
    expect([await quoted(plain, TYP.tallyRequest), await quoted(plain, ALIAS.tallyRequestTyp)]).toEqual([
      200, 400,
    ])
    for (const typ of [TYP.tallyRequest, ALIAS.tallyRequestTyp]) expect(await quoted(aliased, typ)).toBe(200)
    expect(await quoted(aliased, ALIAS.noticeTyp)).toBe(400)
  })

  it('of itself likewise: that it is one, and where mandates are', async () => {
    const other = (stand: JointStand) => {
      const { tally: issuer } = stand
      const body = {
        issuer,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/jwks`,
        [ALIAS.tally]: true,
        [ALIAS.mandateEndpoint]: `${issuer}/mandate`,
      }
      stand.server.script('/.well-known/agents-configuration', { body })
    }
    const previewed = async (environment: Record<string, string>) => {
      const stand = await startJointStand({ environment })
      try {
        other(stand)
        return (await stand.own('POST', '/preview', { tally: stand.tally, account: ACCOUNT })).status
      } finally {
        await stand.close()
      }
    }
    expect(await previewed({})).toBe(502)
    expect(await previewed({ UMA_AS_ALIASES: listed })).toBe(200)
  })
})
