/**
 * A tool that asks for the owner's signature, behind an authority that was stolen with its keys and its
 * database. Contract: "Authorized call", order 4, "Single-use grant"; docs/choices.md.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { openMarks } from '../../src/enforcement/approval/use-marks.ts'
import { openPinnedKeys } from '../../src/enforcement/approval/pinned-keys.ts'
import { ownerListing } from '../../src/enforcement/documents/resource-documents.ts'
import { statementPayload, type SignedStatement } from '../../src/wire/owner/decision-statement.ts'
import { withoutParameters, type DecisionItem } from '../../src/wire/owner/decision-item.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import type { Json, JsonObject } from '../../src/wire/json.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { TYP } from '../../src/wire/names.ts'
import { approvalOf, ITEM } from '../support/decision-samples.ts'
import { approvalByPasskey, newPasskey, passkeyStatement } from '../support/passkeys.ts'
import type { IssuedGrant } from '../support/scripted-authority.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { newKey, nowSeconds, verdict } from './calls.ts'
import { coreStand, permissionOf, tradeItem, TRADE_PARAMS } from './core.ts'

const MISSING = '403 owner_approval_missing'
const OUTAGE = '503 temporarily_unavailable'
const folder = temporaryFolder('approval')

const alice = newKey()
const passkey = newPasskey()
/** What she signs by. */
let by: 'device key' | 'passkey' = 'device key'
const keysFile = join(folder, 'alice.json')
const pin = (...keys: PrivateKey[]): void =>
  writeFileSync(keysFile, JSON.stringify({ keys: [...keys.map(key => publicJwk(key)), ...passkeys] }))
let passkeys: JsonObject[] = []
const logged: object[] = []
const logger = { error: (line: object) => logged.push(line), warn: (line: object) => logged.push(line) }
let folders = 0
const newFolder = (): string => {
  const path = join(folder, `state-${(folders += 1)}`)
  mkdirSync(path)
  return path
}

/** A tool that places trades, as one process of the resource has it. */
const asking = (state: string, clock: () => number = Date.now) => ({
  tool: (name: string) =>
    name !== 'place_trade'
      ? {}
      : {
          ownerApproval: {
            keys: openPinnedKeys(keysFile, { logger: logger as never }),
            marks: openMarks(state, { clock }),
          },
        },
})

const stand = coreStand()
let state = ''
beforeEach(async () => {
  pin(alice)
  logged.length = 0
  state = newFolder()
  await stand.restart(asking(state))
})

const item = (changes: Partial<DecisionItem> = {}) => tradeItem(stand.agent, changes)
const signed = (
  shown = item(),
  claims: Parameters<typeof approvalOf>[2] = {},
  key = alice,
): SignedStatement => {
  const told = { aud: stand.authority.issuer, iat: nowSeconds(), ...claims }
  return by === 'passkey' && key === alice
    ? approvalByPasskey(shown, passkey, told)
    : approvalOf(shown, key, told)
}

interface Presented {
  /** What introspection tells of the decision. */
  decision?: Json | undefined
  grant?: Partial<IssuedGrant>
  lie?: Record<string, unknown>
}
const told = (statement: Json = signed(), of: JsonObject = withoutParameters(item())): Json => ({
  item: of,
  statement,
})

/** A grant that the thief makes, with the decision that he adds to it. */
const grantOf = ({ decision = told(), grant, lie }: Presented = {}): string =>
  stand.singleUse(grant, { owner_decision: decision, ...lie })
const trade = async (token: string, args: object = TRADE_PARAMS): Promise<string> =>
  verdict(await stand.decide({ token, signer: stand.agent, tool: 'place_trade', args }))

/** Refused so, and the grant can still be spent. */
async function refusesUnspent(presented: Presented, args?: object): Promise<void> {
  expect(await trade(grantOf(presented), args)).toBe(MISSING)
  expect(stand.authority.count('/consume')).toBe(0)
}

describe('A trade that alice approved by her signature', () => {
  it('is let through, and the log of one that is not says why', async () => {
    expect(await trade(grantOf())).toBe('allow')
    expect(stand.authority.count('/consume')).toBe(1)
    expect(await trade(grantOf({ decision: null }))).toBe(MISSING)
    expect(stand.core.lines.at(-1)).toMatchObject({
      reason: 'owner_approval_missing',
      step: 'operation',
      detail: 'owner approval: none',
    })
  })

  it('is asked for in the listing that her authority reads', () => {
    expect(ownerListing(stand.core.route).resources).toEqual([
      expect.not.objectContaining({ approval: expect.anything() as unknown }),
      expect.objectContaining({ _id: 'alice/trades', approval: 'signed' }),
    ])
  })

  it('other tools go on as ever', async () => {
    const token = stand.standing()
    expect(verdict(await stand.decide({ token, signer: stand.agent }))).toBe('allow')
  })

  it('a grant that can be used again does not get to the tool', async () => {
    const token = stand.standing({ permissions: permissionOf('trades', 'trade') })
    expect(await trade(token)).toBe(MISSING)
  })
})

/** Every leaf of a document with another value in its place, named by its path. */
function changedLeaves(document: JsonObject): [path: string, changed: JsonObject][] {
  return Object.entries(document).flatMap(([name, value]): [string, JsonObject][] => {
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return changedLeaves(value).map(([path, inner]) => [`${name}.${path}`, { ...document, [name]: inner }])
    const other = typeof value === 'number' ? value + 1 : typeof value === 'boolean' ? !value : 'other'
    return [[name, { ...document, [name]: other }]]
  })
}

/** What a thief of her authority tries while she signs with this kind of key. */
function thefts(kind: typeof by): void {
  beforeEach(() => {
    by = kind
    passkeys = [passkey.jwk]
    pin(alice)
    return () => {
      by = 'device key'
      passkeys = []
    }
  })

  const leaves = changedLeaves(withoutParameters(item({ agent: ITEM.agent }))).map(([path]) => path)

  it('gets nothing through by changing any member of the item', async () => {
    expect(leaves.length).toBeGreaterThan(20)
    const statement = signed()
    for (const [path, changed] of changedLeaves(withoutParameters(item())))
      expect([path, await trade(grantOf({ decision: told(statement, changed) }))]).toEqual([path, MISSING])
    expect(stand.authority.count('/consume')).toBe(0)
  })

  it('gets nothing through by signing the changed item itself', async () => {
    const thief = newKey()
    for (const key of [thief, stand.authority.key, stand.agent])
      await refusesUnspent({ decision: told(signed(item(), {}, key)) })
    // Its own key, under the name of hers, and in the header.
    const { thumbprint: kid } = alice
    const claims = { ...claimsOf(signed()), iss: `jkt:${alice.thumbprint}` }
    const borrowed = { ...newPasskey(), thumbprint: passkey.thumbprint }
    await refusesUnspent({ decision: told(approvalByPasskey(item(), borrowed, { iat: nowSeconds() })) })
    const forged = signJws(
      { typ: TYP.decision, kid, header: { jwk: publicJwk(thief) }, payload: claims },
      thief,
    )
    await refusesUnspent({ decision: told(forged) })
  })

  it.each<[string, () => Presented]>([
    ['another key than she approved', () => ({ grant: { claims: { cnf: { jwk: publicJwk(newKey()) } } } })],
    ['another family', () => ({ grant: { claims: { family: 'fam_other' } } })],
    ['another agreement', () => ({ grant: { claims: { contract: s256('other') } } })],
    ['another handle', () => ({ grant: { claims: { sub: 'jkt:other' } } })],
    [
      'more scopes',
      () => ({
        grant: { permissions: permissionOf('trades', 'trade', { resource_scopes: ['trade', 'withdraw'] }) },
      }),
    ],
    ['a longer life', () => ({ grant: { claims: { exp: nowSeconds() + 86_400 } } })],
    ['no time of its making', () => ({ lie: { iat: undefined } })],
  ])('gets nothing through with a grant of %s', async (what, presented) => {
    const token = grantOf(presented())
    const outcome = await trade(token)
    // The agent has no other key to sign with.
    expect(outcome).toBe(what.startsWith('another key') ? '401 invalid_token' : MISSING)
    expect(stand.authority.count('/consume')).toBe(0)
  })

  it.each<[string, () => Json]>([
    ['nothing', () => null],
    ['no statement', () => ({ item: withoutParameters(item()) })],
    ['no item', () => ({ statement: signed() })],
    ['a list for an item', () => ({ item: [], statement: signed() })],
    ['text that is no JWS', () => told('x')],
    ['a statement that ended', () => told(signed(item(), { iat: nowSeconds() - 3600 - 600 }))],
    ['one from ahead of time', () => told(signed(item(), { iat: nowSeconds() + 120 }))],
    ['a denial', () => told(signed(item(), { decision: 'denied' }))],
    ['one for another authority', () => told(signed(item(), { aud: 'https://as.example.com' }))],
    ['one of another kind', () => told(signJws({ typ: TYP.verdict, payload: claimsOf(signed()) }, alice))],
    ['one without typ', () => told(signJws({ payload: claimsOf(signed()) }, alice))],
    ['one with a member more', () => told(resigned({ ...claimsOf(signed()), use: 'login' }))],
    ['one without jti', () => told(resigned({ ...claimsOf(signed()), jti: '' }))],
    ['one that lives longer', () => told(resigned({ ...claimsOf(signed()), exp: nowSeconds() + 99_999 }))],
  ])('gets nothing through with %s', async (_what, decision) => {
    await refusesUnspent({ decision: decision() })
  })

  it('gets no other parameters through, whatever it says of them', async () => {
    const args = { ...TRADE_PARAMS, qty: 2_000 }
    const operation = { tool: 'place_trade', params_s256: s256Json(args) }
    const params = { operation: { tool: 'place_trade', params: TRADE_PARAMS }, params_s256: s256Json(args) }
    await refusesUnspent({ grant: { operation } }, args)
    await refusesUnspent({ grant: { operation }, decision: told(signed(), { ...item(), ...params }) }, args)
  })

  it('gets one approval through once, under however many grants and spellings', async () => {
    const statement = signed()
    expect(await trade(grantOf({ decision: told(statement) }))).toBe('allow')
    expect(await trade(grantOf({ decision: told(statement) }))).toBe(MISSING)
    // The same claims, signed anew under another header: the same decision.
    for (const again of respelled(claimsOf(statement)))
      expect(await trade(grantOf({ decision: told(again) }))).toBe(MISSING)
    expect(stand.core.lines.at(-1)).toMatchObject({ detail: 'owner approval: used before' })
    expect(stand.authority.count('/consume')).toBe(1)
  })

  it('gets it through once of many at a time', async () => {
    const decision = told()
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => trade(grantOf({ decision }))))
    expect(outcomes.filter(one => one === 'allow')).toHaveLength(1)
    expect(outcomes.filter(one => one === MISSING)).toHaveLength(19)
  })

  it('does not pass a second time after a restart, or at a replica that shares the folder', async () => {
    const decision = told()
    expect(await trade(grantOf({ decision }))).toBe('allow')
    await stand.restart(asking(state))
    expect(await trade(grantOf({ decision }))).toBe(MISSING)
  })

  it('gets it through once more at a replica with a folder of its own, until it ends', async () => {
    // It ends an hour and the life of the grant after she signed.
    const decision = told(signed(item(), { iat: nowSeconds() - 3600 - 600 + 60 }))
    expect(await trade(grantOf({ decision }))).toBe('allow')
    await stand.restart(asking(newFolder()))
    expect(await trade(grantOf({ decision }))).toBe('allow')
    expect(await trade(grantOf({ decision }))).toBe(MISSING)
    const later = (): number => Date.now() + 60_000
    await stand.restart({ ...asking(newFolder()), clock: later })
    // To the clock of the resource the request is older by now, so it is signed then.
    const signer = stand.agent
    const parts = { signer, tool: 'place_trade', args: TRADE_PARAMS, created: nowSeconds() + 60 }
    expect(verdict(await stand.decide({ ...parts, token: grantOf({ decision }) }))).toBe(MISSING)
  })
}

describe('A stolen authority', () => thefts('device key'))
describe('A stolen authority, of an owner with a passkey,', () => thefts('passkey'))

const claimsOf = statementPayload
const resigned = (payload: JsonObject): SignedStatement =>
  by === 'passkey' ? passkeyStatement(payload, passkey) : signJws({ typ: TYP.decision, payload }, alice)
const respelled = (payload: JsonObject): SignedStatement[] =>
  by === 'passkey'
    ? [
        passkeyStatement(payload, passkey),
        passkeyStatement(Object.fromEntries(Object.entries(payload).reverse()), passkey, { signCount: 7 }),
        passkeyStatement(payload, passkey, { clientData: { note: 'x' }, flags: 0x1d }),
      ]
    : [signJws({ typ: TYP.decision, kid: 'x', payload }, alice)]

describe('The keys that are pinned', () => {
  it('are those that the file names at each call', async () => {
    const bob = newKey()
    pin(bob)
    await refusesUnspent({})
    pin(bob, alice)
    expect(await trade(grantOf())).toBe('allow')
  })

  it('do not count while the file cannot be read, and the log says so once', async () => {
    for (const text of ['{', '{"keys":[]}', '{"keys":[{"kty":"EC","crv":"P-256","x":"x","y":"y"}]}']) {
      logged.length = 0
      writeFileSync(keysFile, text)
      await refusesUnspent({})
      await refusesUnspent({})
      expect(logged).toMatchObject([{ keys_file: keysFile }])
    }
    pin(alice)
    expect(await trade(grantOf())).toBe('allow')
  })

  it('are told of in the log where pages of the authority can use them', async () => {
    writeFileSync(keysFile, JSON.stringify({ keys: [{ ...publicJwk(alice), surface: 'served' }] }))
    expect(await trade(grantOf())).toBe('allow')
    expect(logged).toMatchObject([{ keys: [alice.thumbprint] }])
  })
})

describe('A use of an approval', () => {
  it('that cannot be marked is an outage, and costs neither grant nor approval', async () => {
    const decision = told()
    const token = grantOf({ decision })
    const gone = join(folder, 'gone')
    await stand.restart(asking(gone))
    const outcome = await stand.decide({
      token,
      signer: stand.agent,
      tool: 'place_trade',
      args: TRADE_PARAMS,
    })
    expect(verdict(outcome)).toBe(OUTAGE)
    expect(outcome).toMatchObject({ body: { grant_unspent: true } })
    expect(stand.authority.count('/consume')).toBe(0)
    mkdirSync(gone)
    expect(await trade(token)).toBe('allow')
  })

  it('is given back if the grant could not be spent', async () => {
    const token = grantOf()
    stand.authority.script('/consume', { status: 503, body: {} })
    expect(await trade(token)).toBe(OUTAGE)
    expect(readdirSync(state)).toEqual([])
    stand.authority.script('/consume', undefined)
    expect(await trade(token)).toBe('allow')
    expect(readdirSync(state)).toHaveLength(1)
  })

  it('is marked before the grant is spent', async () => {
    const marks: number[] = []
    stand.authority.script('/consume', () => {
      marks.push(readdirSync(state).length)
      return { status: 200, body: { consumed: true } }
    })
    expect(await trade(grantOf())).toBe('allow')
    expect(marks).toEqual([1])
  })

  it('is forgotten only long after it ended', async () => {
    const at = (seconds: number) => openMarks(state, { clock: () => seconds * 1000 })
    const [digest, other] = [s256('one'), s256('other')]
    expect(await at(1_000).take(digest, 5_000)).toBeDefined()
    expect(await at(6_000).take(digest, 5_000)).toBeUndefined()
    expect(await at(5_000 + 8 * 24 * 3600).take(other, 1_000_000)).toBeDefined()
    await expect.poll(() => readdirSync(state)).toHaveLength(1)
  })
})
