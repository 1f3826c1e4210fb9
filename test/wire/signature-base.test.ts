import type { InnerList, Item } from 'structured-headers'
import { describe, expect, it } from 'vitest'
import { verifyEd25519, importPublicJwk } from '../../src/wire/signatures/keys.ts'
import {
  componentValue,
  plainComponent,
  signatureBase,
  type SignedMessage,
} from '../../src/wire/signatures/signature-base.ts'
import { parseDictionaryField } from '../../src/wire/signatures/structured-fields.ts'
import { refusalOf } from '../support/refusals.ts'
import { describeVectors } from '../support/vectors.ts'

/** A request to `target` as its receiver would describe it. */
function requestTo(target: string, more: Partial<SignedMessage> = {}): SignedMessage {
  const [path = '', query] = target.split(/\?(.*)/s)
  return {
    method: 'POST',
    scheme: 'https',
    authority: 'www.example.com',
    path,
    query,
    headers: new Map(),
    ...more,
  }
}

function withField(name: string, ...lines: string[]): SignedMessage {
  return requestTo('/', { headers: new Map([[name, lines]]) })
}

function component(name: string, parameters: Record<string, string | true> = {}): Item {
  return [name, new Map(Object.entries(parameters))]
}

describe('derived components', () => {
  it.each<[string, string, SignedMessage]>([
    ['@method', 'POST', requestTo('/')],
    ['@method', 'post', requestTo('/', { method: 'post' })],
    ['@path', '/a/../b', requestTo('/a/../b')],
    ['@path', '/%2F', requestTo('/%2F')],
    ['@path', '/%2f', requestTo('/%2f')],
    ['@path', '//evil/a', requestTo('//evil/a')],
    ['@path', '/', requestTo('')],
    ['@path', '/x', requestTo('/x?y=1')],
    ['@query', '?', requestTo('/x')],
    ['@query', '?', requestTo('/x?')],
    ['@query', '?a=b?c', requestTo('/x?a=b?c')],
    ['@target-uri', 'https://www.example.com/x?y', requestTo('/x?y')],
    ['@request-target', '/x?', requestTo('/x?')],
    ['@request-target', '/x', requestTo('/x')],
    ['@scheme', 'http', requestTo('/', { scheme: 'http' })],
    ['@authority', 'www.example.com', requestTo('/', { authority: 'WWW.Example.COM' })],
    ['@authority', 'www.example.com', requestTo('/', { authority: 'www.example.com:443' })],
    ['@authority', 'www.example.com', requestTo('/', { authority: 'www.example.com:80', scheme: 'http' })],
    ['@authority', 'www.example.com:80', requestTo('/', { authority: 'www.example.com:80' })],
    ['@authority', 'www.example.com:8443', requestTo('/', { authority: 'www.example.com:8443' })],
    ['@authority', 'www.example.com.', requestTo('/', { authority: 'www.example.com.' })],
  ])('%s is %s, exactly', (name, value, message) => {
    expect(componentValue(message, plainComponent(name))).toBe(value)
  })

  it.each<[string, Item, SignedMessage]>([
    ['an unknown one', component('@status'), requestTo('/')],
    ['@signature-params', component('@signature-params'), requestTo('/')],
    ['a header of a derived name', component('@foo'), withField('@foo', 'x')],
    ['@method;req', component('@method', { req: true }), requestTo('/')],
    ['@path;sf', component('@path', { sf: true }), requestTo('/')],
    ['a method that is no token', component('@method'), requestTo('/', { method: 'GET\nx' })],
    ['no method', component('@method'), requestTo('/', { method: '' })],
    ['a path with a query in it', component('@path'), requestTo('/', { path: '/a?b' })],
    ['a path with a fragment', component('@path'), requestTo('/', { path: '/a#b' })],
    ['a path with a blank', component('@path'), requestTo('/', { path: '/a b' })],
    ['a path with a newline', component('@path'), requestTo('/', { path: '/a\n"@method": GET' })],
    ['a path beyond ASCII', component('@path'), requestTo('/', { path: '/é' })],
    ['an absolute-form target', component('@path'), requestTo('/', { path: 'http://other/' })],
    ['the asterisk form', component('@path'), requestTo('/', { path: '*' })],
    ['a query with a fragment', component('@query'), requestTo('/', { query: 'a#b' })],
    ['a query beyond ASCII', component('@query'), requestTo('/', { query: 'é' })],
    ['an empty authority', component('@authority'), requestTo('/', { authority: '' })],
    ['a query parameter that occurs twice', component('@query-param', { name: 'a' }), requestTo('/?a=1&a=1')],
    ['a query parameter that is not there', component('@query-param', { name: 'b' }), requestTo('/?a=1')],
    ['a query parameter without name', component('@query-param'), requestTo('/?a=1')],
    ['a query parameter;req', component('@query-param', { name: 'a', req: true }), requestTo('/?a=1')],
  ])('refuse %s', (_, item, message) => {
    const refusal = refusalOf(() => componentValue(message, item))
    expect([refusal.code, refusal.status]).toEqual(['invalid_token', 401])
  })
})

describe('fields', () => {
  it.each<[string, Item, SignedMessage]>([
    ['a name in capitals', component('Authorization'), withField('authorization', 'x')],
    ['an empty name', component(''), withField('', 'x')],
    ['a missing field', component('x-a'), withField('x-b', '1')],
    ['a field without lines', component('x-a'), withField('x-a')],
    ['two Authorization lines', component('authorization'), withField('authorization', 'PoP a', 'PoP b')],
    ['authorization;sf', component('authorization', { sf: true }), withField('authorization', 'PoP a')],
    ['a trailer', component('x-a', { tr: true }), withField('x-a', '1')],
    ['the related request', component('x-a', { req: true }), withField('x-a', '1')],
    ['an unknown parameter', component('x-a', { foo: true }), withField('x-a', '1')],
    ['sf on an unknown field', component('x-a', { sf: true }), withField('x-a', '1')],
    ['bs with sf', component('content-digest', { bs: true, sf: true }), withField('content-digest', 'a=1')],
    ['bs with key', component('x-a', { bs: true, key: 'a' }), withField('x-a', 'a=1')],
    ['bs that is not true', component('x-a', { bs: 'x' }), withField('x-a', '1')],
    ['key of a missing member', component('x-a', { key: 'b' }), withField('x-a', 'a=1')],
    ['key of a field that is no dictionary', component('x-a', { key: 'a' }), withField('x-a', 'a=1,')],
    ['key of a repeated member', component('x-a', { key: 'a' }), withField('x-a', 'a=1', 'a=1')],
    ['key without a value', component('x-a', { key: true }), withField('x-a', 'a=1')],
    [
      'sf of a field that does not parse',
      component('content-digest', { sf: true }),
      withField('content-digest', '='),
    ],
    ['a newline in a value', component('x-a'), withField('x-a', 'a\n"@method": GET')],
    ['a carriage return in a value', component('x-a'), withField('x-a', 'a\rb')],
    ['a NUL in a value', component('x-a'), withField('x-a', 'a\0b')],
    ['a value beyond ASCII', component('x-a'), withField('x-a', 'é')],
  ])('refuse %s', (_, item, message) => {
    const refusal = refusalOf(() => componentValue(message, item))
    expect([refusal.code, refusal.status]).toEqual(['invalid_token', 401])
  })

  it('keep a tab inside a value and drop blanks around it', () => {
    expect(componentValue(withField('x-a', '\t a\tb \t'), plainComponent('x-a'))).toBe('a\tb')
  })

  it('let an absent authorization count as empty only where that is agreed', () => {
    const message = requestTo('/')
    expect(
      componentValue(message, plainComponent('authorization'), { absentAuthorizationIsEmpty: true }),
    ).toBe('')
    refusalOf(() => componentValue(message, plainComponent('authorization')))
    refusalOf(() => componentValue(message, plainComponent('x-a'), { absentAuthorizationIsEmpty: true }))
    refusalOf(() =>
      componentValue(message, component('authorization', { bs: true }), { absentAuthorizationIsEmpty: true }),
    )
  })

  it('unfold a long run of blanks without taking long', () => {
    const value = `a${' '.repeat(200_000)}b${'\r\n '.repeat(50_000)}c`
    const start = process.cpuUsage().user
    componentValue(withField('x-a', value), plainComponent('x-a'))
    expect(process.cpuUsage().user - start).toBeLessThan(1_000_000)
  })
})

describe('the base', () => {
  it('lists components in the signer’s order and ends without a newline', () => {
    const covered: InnerList = [
      [plainComponent('@path'), plainComponent('@method')],
      new Map([['created', 1]]),
    ]
    expect(signatureBase(requestTo('/x'), covered)).toBe(
      '"@path": /x\n"@method": POST\n"@signature-params": ("@path" "@method");created=1',
    )
  })

  it('refuses a component listed twice, whatever the order of its parameters', () => {
    const twice: InnerList = [[plainComponent('@path'), plainComponent('@path')], new Map()]
    refusalOf(() => signatureBase(requestTo('/'), twice))
    const swapped: InnerList = [
      [component('x-a', { bs: true, tr: true }), component('x-a', { tr: true, bs: true })],
      new Map(),
    ]
    refusalOf(() => signatureBase(withField('x-a', '1'), swapped))
  })

  it('refuses a component name that is not text', () => {
    refusalOf(() => signatureBase(requestTo('/'), [[[1, new Map()]], new Map()]))
  })
})

interface ComponentVectors {
  cases: {
    section: string
    field: string
    params?: Record<string, string | true>
    raw: string[]
    value?: string
    base_line?: string
  }[]
  derived: {
    section: string
    request_line: string
    scheme?: 'http' | 'https'
    component: string
    name?: string
    value: string
  }[]
}

describeVectors<ComponentVectors>('rfc9421-components.json', 'RFC 9421 section 2 examples', data => {
  const structuredFields = new Map([['example-dict', 'dictionary' as const]])

  it.each(data.cases)('$section $field $params', ({ field, params, raw, value, base_line }) => {
    const message = withField(field, ...raw)
    const item = component(field, params)
    const base = signatureBase(message, [[item], new Map()], { structuredFields })
    if (base_line !== undefined) expect(base.split('\n')[0]).toBe(base_line)
    if (value !== undefined) expect(componentValue(message, item)).toBe(value)
  })

  const originForm = data.derived.filter(({ request_line }) => request_line.split(' ')[1]!.startsWith('/'))
  it.each(originForm)(
    '$section $component $name of $request_line',
    ({ request_line, scheme = 'https', component: id, name, value }) => {
      const [method, target] = request_line.split(' ') as [string, string]
      const message = requestTo(target, { method, scheme })
      expect(componentValue(message, component(id, name === undefined ? {} : { name }))).toBe(value)
    },
  )

  it('are refused in the forms of target that we do not serve', () => {
    const others = data.derived.filter(example => !originForm.includes(example))
    expect(others.map(({ value }) => value)).toEqual([
      'https://www.example.com/path?param=value',
      'www.example.com:80',
      '*',
    ])
    for (const { value } of others)
      refusalOf(() => componentValue(requestTo(value), plainComponent('@request-target')))
  })
})

interface SignatureVectors {
  messages: Record<string, { fields: [string, string][]; method?: string; target?: string }>
  cases: {
    section: string
    message: string
    signature_base: string
    signature_input: string
    known_message_mismatch?: boolean
  }[]
}

/** Field lines by lower-case name, as a receiver keeps them. */
function headersOf(fields: readonly (readonly [string, string])[]): Map<string, string[]> {
  const headers = new Map<string, string[]>()
  for (const [name, value] of fields)
    headers.set(name.toLowerCase(), [...(headers.get(name.toLowerCase()) ?? []), value])
  return headers
}

function coveredBy(signatureInput: string): InnerList {
  return [...parseDictionaryField([signatureInput])!.values()][0]!.value as InnerList
}

describeVectors<SignatureVectors>('rfc9421.json', 'RFC 9421 appendix B signature bases', data => {
  const requests = data.cases.filter(({ message }) => data.messages[message]!.method !== undefined)
  it.each(requests)('$section', example => {
    const { fields, method, target } = data.messages[example.message]!
    const authority = fields.find(([name]) => name === 'Host')![1]
    const message = requestTo(target!, { method: method!, authority, headers: headersOf(fields) })
    const base = () => signatureBase(message, coveredBy(example.signature_input))
    if (example.known_message_mismatch) expect(base()).not.toBe(example.signature_base)
    else expect(base()).toBe(example.signature_base)
  })
})

interface BotVectors {
  key: { kty: string; crv: string; x: string }
  target_authority: string
  cases: { name: string; signature_base: string; headers: [string, string][]; request?: string }[]
}

describeVectors<BotVectors>('web-bot-auth-ed25519.json', 'Web Bot Auth signatures', data => {
  const { kty, crv, x } = data.key
  const key = importPublicJwk({ kty, crv, x }, { allowTestKeys: true })

  it.each(data.cases.filter(({ request }) => request === undefined))(
    '$name',
    ({ headers, signature_base }) => {
      const fields = headersOf(headers)
      const message = requestTo('/', { authority: data.target_authority, headers: fields })
      const base = signatureBase(message, coveredBy(fields.get('signature-input')![0]!))
      expect(base).toBe(signature_base)
      const signature = Buffer.from(fields.get('signature')![0]!.split(':')[1]!, 'base64')
      expect(verifyEd25519(Buffer.from(base), signature, key)).toBe(true)
    },
  )
})
