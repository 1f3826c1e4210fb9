import { describe, expect, it } from 'vitest'
import { verifyAgentToken, type AgentIdentity } from '../../src/wire/agents/agent-identity.ts'
import { introducerOf, signIntroduction, verifyIntroduction } from '../../src/wire/agents/introduction.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { TYP } from '../../src/wire/names.ts'
import { refusalOf } from '../support/refusals.ts'
import { AGENT_ISSUER, agentToken, ISSUER, newKey, NOW } from '../support/wire-samples.ts'

const introducerKey = newKey()
const newcomer = newKey()
const issuer = newKey()
const content = { newcomer, aud: ISSUER, iat: NOW, exp: NOW + 300, jti: 'int_1' }
const bare: AgentIdentity = { kind: 'key', key: introducerKey }
const expected = { newcomer, aud: ISSUER, now: NOW }

function refused(introduction: string, introducer: AgentIdentity = bare): string {
  return refusalOf(() => verifyIntroduction(introduction, introducer, expected)).code
}

/** An introduction with claims replaced or, where undefined, left out. */
function altered(
  claims: Record<string, unknown>,
  header: object = { jwk: introducerKey.jwk },
  typ: string = TYP.introduction,
): string {
  const payload = { sub: newcomer.thumbprint, aud: ISSUER, iat: NOW, exp: NOW + 300, jti: 'int_1', ...claims }
  return signJws({ typ, kid: false, header, payload }, introducerKey)
}

describe('an introduction', () => {
  it('names introducer and newcomer, and reads back as signed', () => {
    const introduction = signIntroduction(content, introducerKey)
    expect(introducerOf(introduction)).toMatchObject({ kind: 'key', key: { x: introducerKey.x } })
    expect(verifyIntroduction(introduction, bare, expected)).toMatchObject({
      introducer: bare,
      newcomer: { thumbprint: newcomer.thumbprint },
      jti: 'int_1',
      iat: NOW,
      exp: NOW + 300,
    })
  })

  it('may name the newcomer by its handle too', () => {
    expect(verifyIntroduction(altered({ sub: `jkt:${newcomer.thumbprint}` }), bare, expected).jti).toBe(
      'int_1',
    )
  })

  it('by an identified agent carries its token, and is not to be had for its bare key', () => {
    const agent_token = agentToken(issuer, introducerKey)
    const introducer: AgentIdentity = {
      kind: 'agent_token',
      agent: verifyAgentToken(agent_token, [issuer], NOW),
    }
    const introduction = signIntroduction({ ...content, agent_token }, introducerKey)
    expect(introducerOf(introduction)).toMatchObject({ kind: 'agent_token', iss: AGENT_ISSUER })
    expect(verifyIntroduction(introduction, introducer, expected).introducer).toBe(introducer)
    expect(refused(introduction, bare)).toBe('invalid_request')
    expect(refused(signIntroduction(content, introducerKey), introducer)).toBe('invalid_request')
  })

  it.each<[string, Record<string, unknown>]>([
    ['another newcomer', { sub: newKey().thumbprint }],
    ['no newcomer', { sub: undefined }],
    ['another authority', { aud: 'https://other.example' }],
    ['no authority', { aud: undefined }],
    ['no exp', { exp: undefined }],
    ['an exp that has come', { exp: NOW }],
    ['an exp over 300 s ahead', { exp: NOW + 301 }],
    ['no iat', { iat: undefined }],
    ['an iat ahead', { iat: NOW + 61 }],
    ['no jti', { jti: undefined }],
    ['a jti of another type', { jti: 7 }],
    ['over 4096 bytes', { note: 'x'.repeat(4000) }],
  ])('is refused with %s', (_what, claims) => {
    expect(refused(altered(claims))).toBe('invalid_request')
  })

  it('is refused without a key, under another, and as another kind', () => {
    expect(refused(altered({}, {}))).toBe('invalid_request')
    expect(refused(altered({}, { jwk: newKey().jwk }))).toBe('invalid_request')
    expect(refused(altered({}, { jwk: introducerKey.jwk }, TYP.agreement))).toBe('invalid_request')
    expect(refused(signIntroduction(content, introducerKey), { kind: 'key', key: newKey() })).toBe(
      'invalid_request',
    )
  })

  it.each([undefined, null, 7, {}, '', 'x', 'a.b.c'])('is not what %j is', value => {
    expect(refusalOf(() => introducerOf(value)).code).toBe('invalid_request')
  })
})
