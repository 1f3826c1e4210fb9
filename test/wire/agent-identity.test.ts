import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  agentIdentity,
  handleOf,
  isAgentIdentifier,
  isAgentIssuer,
  isServerIdentifier,
  operatorOrigin,
  subjectHandle,
  verifyAgentToken,
} from '../../src/wire/agents/agent-identity.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { TYP } from '../../src/wire/names.ts'
import { refusalOf } from '../support/refusals.ts'
import { describeVectors } from '../support/vectors.ts'
import { AGENT_ISSUER, agentToken, newKey, NOW } from '../support/wire-samples.ts'

const issuer = newKey()
const agent = newKey()
const jwk = { ...agent.jwk }

describe('a header', () => {
  it('names a bare key or an agent token', () => {
    expect(agentIdentity({ jwk })).toMatchObject({ kind: 'key', key: { thumbprint: agent.thumbprint } })
    const token = agentToken(issuer, agent)
    expect(agentIdentity({ agent_token: token })).toEqual({
      kind: 'agent_token',
      token,
      iss: AGENT_ISSUER,
      kid: issuer.kid,
    })
  })

  it.each<[string, Parameters<typeof agentIdentity>[0]]>([
    ['both', { jwk, agent_token: agentToken(issuer, agent) }],
    ['neither', {}],
    ['a null key', { jwk: null }],
    ['a private key', { jwk: { ...jwk, d: 'x' } }],
    ['a key of another kind', { jwk: { kty: 'EC', crv: 'P-256', x: 'a', y: 'b' } }],
    ['a token that is no text', { agent_token: 7 }],
    ['a token that is no JWS', { agent_token: 'x' }],
    ['a token without issuer', { agent_token: agentToken(issuer, agent, { iss: undefined }) }],
  ])('with %s is refused', (_what, header) => {
    expect(refusalOf(() => agentIdentity(header)).code).toBe('invalid_request')
  })
})

describe('an agent token', () => {
  it('gives issuer, subject and key, once its issuer is known to have signed it', () => {
    const verified = verifyAgentToken(agentToken(issuer, agent), [issuer], NOW)
    expect(verified).toMatchObject({
      iss: AGENT_ISSUER,
      sub: 'aauth:planner@agents.example',
      exp: NOW + 3600,
    })
    expect(verified.key.thumbprint).toBe(agent.thumbprint)
    expect(verified.parent_agent).toBeUndefined()
  })

  it('may name a parent, a person server, and claims that nobody knows', () => {
    const token = agentToken(issuer, agent, {
      parent_agent: 'aauth:root@agents.example',
      ps: 'https://person.example',
      tier: 'x',
    })
    expect(verifyAgentToken(token, [issuer], NOW).parent_agent).toBe('aauth:root@agents.example')
  })

  it('finds its key among several by kid, and needs none of the others to be there', () => {
    expect(verifyAgentToken(agentToken(issuer, agent), [newKey(), issuer, newKey()], NOW).iss).toBe(
      AGENT_ISSUER,
    )
  })

  it('is good up to its exp, and not at it', () => {
    const token = agentToken(issuer, agent, { exp: NOW + 10 })
    expect(verifyAgentToken(token, [issuer], NOW + 9).exp).toBe(NOW + 10)
    expect(refusalOf(() => verifyAgentToken(token, [issuer], NOW + 10)).code).toBe('invalid_request')
  })

  it.each<[string, Record<string, unknown>]>([
    ['another dwk', { dwk: 'aauth-person.json' }],
    ['no dwk', { dwk: undefined }],
    ['no exp', { exp: undefined }],
    ['an exp as text', { exp: String(NOW + 10) }],
    ['no iat', { iat: undefined }],
    ['an iat ahead', { iat: NOW + 61 }],
    ['no jti', { jti: undefined }],
    ['no key', { cnf: undefined }],
    ['a key by thumbprint alone', { cnf: { jkt: agent.thumbprint } }],
    ['a private key', { cnf: { jwk: { ...jwk, d: 'x' } } }],
    ['an http issuer', { iss: 'http://agents.example' }],
    ['an issuer with a query', { iss: 'https://agents.example?x' }],
    ['an issuer with a fragment', { iss: 'https://agents.example#x' }],
    ['an issuer with user information', { iss: 'https://a@agents.example' }],
    ['an issuer in upper case', { iss: 'https://Agents.example' }],
    ['no subject', { sub: undefined }],
    ['an empty subject', { sub: '' }],
    ['a subject of 256 characters', { sub: 'x'.repeat(256) }],
    ['a subject with a blank', { sub: 'my agent' }],
    ['a subject beyond ASCII', { sub: 'agént' }],
    ['a subject with a control character', { sub: 'a\u0007' }],
    ['an AAuth subject of another domain', { sub: 'aauth:planner@other.example' }],
    ['a malformed AAuth subject', { sub: 'aauth:Planner@agents.example' }],
    ['a parent of another domain', { parent_agent: 'aauth:root@other.example' }],
    ['itself as parent', { parent_agent: 'aauth:planner@agents.example' }],
    ['a parent of another type', { parent_agent: ['x'] }],
    ['a person server with a path', { ps: 'https://person.example/v1' }],
  ])('with %s is refused', (_what, claims) => {
    expect(refusalOf(() => verifyAgentToken(agentToken(issuer, agent, claims), [issuer], NOW)).code).toBe(
      'invalid_request',
    )
  })

  it('by another key, or of another kind, is refused', () => {
    expect(refusalOf(() => verifyAgentToken(agentToken(newKey(), agent), [issuer], NOW)).code).toBe(
      'invalid_request',
    )
    expect(refusalOf(() => verifyAgentToken(agentToken(issuer, agent), [], NOW)).code).toBe('invalid_request')
    const payload = {
      iss: AGENT_ISSUER,
      sub: 'x',
      jti: 'j',
      iat: NOW,
      exp: NOW + 9,
      dwk: 'aauth-agent.json',
      cnf: { jwk },
    }
    for (const typ of [TYP.rpt, TYP.pat, 'JWT']) {
      expect(refusalOf(() => verifyAgentToken(signJws({ typ, payload }, issuer), [issuer], NOW)).code).toBe(
        'invalid_request',
      )
    }
    const untyped = signJws({ payload }, issuer)
    expect(refusalOf(() => verifyAgentToken(untyped, [issuer], NOW)).code).toBe('invalid_request')
  })
})

describe('a handle', () => {
  it('is jkt: and the thumbprint for a bare key', () => {
    expect(handleOf({ kind: 'key', key: agent })).toBe(`jkt:${agent.thumbprint}`)
  })

  it('is sub@issuer without scheme and trailing slash for an identified agent, the path kept', () => {
    const identified = (claims: object) =>
      handleOf({
        kind: 'agent_token',
        agent: verifyAgentToken(agentToken(issuer, agent, { ...claims }), [issuer], NOW),
      })
    expect(identified({})).toBe('aauth:planner@agents.example@agents.example')
    expect(identified({ sub: 'p', iss: 'https://agents.example/' })).toBe('p@agents.example')
    expect(identified({ sub: 'p', iss: 'https://agents.example/tenant/1' })).toBe('p@agents.example/tenant/1')
    expect(identified({ sub: 'p', iss: 'https://agents.example:8443' })).toBe('p@agents.example:8443')
  })

  it('is of one subject of one issuer only, however the subject is spelt', () => {
    const sub = fc.stringMatching(/^[a-c@/.:]{1,8}$/)
    const iss = fc
      .tuple(fc.constantFrom('a', 'b'), fc.stringMatching(/^[a-c@/.]{0,4}$/))
      .map(([host, path]) => `https://${host}/${path}`)
      .filter(isAgentIssuer)
    const stripped = (text: string) => text.replace(/\/$/, '')
    fc.assert(
      fc.property(sub, iss, sub, iss, (sub1, iss1, sub2, iss2) => {
        const same = sub1 === sub2 && stripped(iss1) === stripped(iss2)
        expect(subjectHandle(sub1, iss1) === subjectHandle(sub2, iss2)).toBe(same)
      }),
      { numRuns: 2000 },
    )
  })
})

describe('an operator', () => {
  it.each([
    ['https://bots.example/client.json', 'https://bots.example'],
    ['https://bots.example:8443/a/b', 'https://bots.example:8443'],
    ['https://bots.example/', 'https://bots.example'],
    ['http://127.0.0.1:9300/client.json', 'http://127.0.0.1:9300'],
    ['http://bots.example/client.json', undefined],
    ['https://bots.example', undefined],
    ['https://bots.example./x', undefined],
    ['https://bots.example.:8443/x', undefined],
    ['https://Bots.example/x', undefined],
    ['https://bots.example:443/x', undefined],
    ['https://bots.example/a/../b', undefined],
    ['https://u:p@bots.example/x', undefined],
    ['https://bots.example/x#f', undefined],
    ['https://bots.example\\x', undefined],
    ['https://bots.example/x y', undefined],
    ['bots', undefined],
    ['', undefined],
    ['data:text/plain,x', undefined],
  ])('of %j is %s', (client_id, origin) => {
    expect(operatorOrigin(client_id)).toBe(origin)
  })
})

describeVectors<Record<'server_identifier' | 'agent_identifier', { valid: string[]; invalid: string[] }>>(
  'aauth-identifiers.json',
  'AAuth identifiers',
  ({ server_identifier, agent_identifier }) => {
    it.each(server_identifier.valid)('takes the server %s', text => {
      expect(isServerIdentifier(text)).toBe(true)
    })
    it.each(server_identifier.invalid)('does not take the server %s', text => {
      expect(isServerIdentifier(text)).toBe(false)
    })
    it.each(agent_identifier.valid)('takes the agent %s', text => {
      expect(isAgentIdentifier(text)).toBe(true)
    })
    it.each(agent_identifier.invalid)('does not take the agent %s', text => {
      expect(isAgentIdentifier(text)).toBe(false)
    })
  },
)
