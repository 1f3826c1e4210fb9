import { describe, expect, it } from 'vitest'
import { signEd25519 } from '../../src/wire/signatures/keys.ts'
import { refusalOf } from '../support/refusals.ts'
import {
  agentKey,
  CALL_COMPONENTS,
  CALL_LINES,
  callMessage,
  signed,
  SIGNED_AT,
  signedOver,
  verifyCall,
  withFields,
  type TestMessage,
} from '../support/signed-messages.ts'

const COMPONENTS = CALL_COMPONENTS.map(name => `"${name}"`).join(' ')
const member = (parameters: string, components = COMPONENTS) => `(${components})${parameters}`
const created = `;created=${SIGNED_AT}`

/**
 * A true signature over the very base that this member stands for, so that only the member can be at fault.
 */
function over(
  parameters: string,
  components = COMPONENTS,
  lines: readonly string[] = CALL_LINES,
): TestMessage {
  return signedOver(callMessage(), member(parameters, components), lines)
}

/** The signed call with another text in one of its two fields. */
function altered(name: 'signature' | 'signature-input', alter: (value: string) => string): TestMessage {
  const message = signed(callMessage())
  message.headers.set(name, message.headers.get(name)!.map(alter))
  return message
}

function withHeader(name: string, values: string[]): TestMessage {
  const message = signed(callMessage())
  message.headers.set(name, values)
  return message
}

describe('honest but unusual signatures', () => {
  it.each<[string, TestMessage]>([
    ['by another signer’s code', over(created)],
    ['with alg named', over(`${created};alg="ed25519"`)],
    ['with an unknown parameter', over(`${created};foo="bar";baz`)],
    ['with a backslash and a quote in the nonce', over(`${created};nonce="a\\"b\\\\"`)],
    [
      'with components in another order',
      over(created, '"authorization" "@path" "@authority" "@method"', CALL_LINES.toReversed()),
    ],
    [
      'with a covered field given as bytes beside',
      over(created, `${COMPONENTS} "authorization";bs`, [
        ...CALL_LINES,
        `"authorization";bs: :${btoa('PoP header.payload.signature')}:`,
      ]),
    ],
    ['with blanks that SF allows', signedBlanks()],
  ])('verify %s', (_, message) => {
    expect(verifyCall(message).created).toBe(SIGNED_AT)
  })

  /** The base has the strict serialisation (RFC 9421 section 3.2 step 7), whatever the blanks on the wire. */
  function signedBlanks(): TestMessage {
    const message = over(created)
    message.headers.set('signature-input', [
      `  sig1=(  ${COMPONENTS.replaceAll(' ', '   ')} ); created=${SIGNED_AT}  `,
    ])
    return message
  }
})

describe('a signature is refused', () => {
  it.each<[string, TestMessage]>([
    ['without Signature-Input', withHeader('signature-input', [])],
    ['without Signature', withHeader('signature', [])],
    ['with an empty Signature-Input', withHeader('signature-input', [''])],
    ['with a label renamed in one field', altered('signature', value => value.replace('sig1', 'sig2'))],
    [
      'with a label in Signature-Input only',
      altered('signature-input', value => `${value}, sig2=("@method")`),
    ],
    ['with a label in Signature only', altered('signature', value => `${value}, sig2=:AAAA:`)],
    ['that is no list of components', altered('signature-input', () => 'sig1="x"')],
    ['with an unclosed quote', altered('signature-input', value => value.slice(0, -1))],
    [
      'with a tab in a component name',
      altered('signature-input', value => value.replace('@path', '@pa\tth')),
    ],
    [
      'with a line feed in a component name',
      altered('signature-input', value => value.replace('@path', '@path\n')),
    ],
    ['with a line feed between', altered('signature-input', value => value.replace(' ', '\n'))],
    ['with a trailing comma', altered('signature-input', value => `${value},`)],
    [
      'with two Authorization lines',
      withHeader('authorization', ['PoP header.payload.signature', 'PoP other']),
    ],
    ['with another Authorization', withHeader('authorization', ['PoP header.payload.signaturf'])],
    ['with no Authorization', withHeader('authorization', [])],
    ['for another method', { ...signed(callMessage()), method: 'GET' }],
    ['for the method in lower case', { ...signed(callMessage()), method: 'post' }],
    ['for another authority', { ...signed(callMessage()), authority: 'tools.example.org' }],
    ['for the authority with a trailing dot', { ...signed(callMessage()), authority: 'tools.example.com.' }],
    ['for another port', { ...signed(callMessage()), authority: 'tools.example.com:8443' }],
    ['for another path', { ...signed(callMessage()), path: '/mcp/bob' }],
    ['for a path that resolves to it', { ...signed(callMessage()), path: '/mcp/x/../alice' }],
    ['for the path with a slash', { ...signed(callMessage()), path: '/mcp/alice/' }],
    ['for the path with two slashes', { ...signed(callMessage()), path: '//mcp/alice' }],
    ['for the path encoded otherwise', { ...signed(callMessage()), path: '/mcp/%61lice' }],
    ['for %2F instead of %2f', { ...signed(callMessage({ path: '/a%2fb' })), path: '/a%2Fb' }],
    ['for an empty path instead', { ...signed(callMessage()), path: '' }],
  ])('%s', (_, message) => {
    expect(refusalOf(() => verifyCall(message))).toMatchObject({ code: 'invalid_token', status: 401 })
  })

  it.each<[string, string]>([
    ['is missing', ''],
    ['is a string', `;created="${SIGNED_AT}"`],
    ['is a decimal', `;created=${SIGNED_AT}.0`],
    ['is a date', `;created=@${SIGNED_AT}`],
    ['is true', ';created'],
    ['is a token', ';created=now'],
    ['is negative', `;created=-${SIGNED_AT}`],
    ['is bytes', `;created=:${btoa(String(SIGNED_AT))}:`],
    ['is there twice', `;created=1${created}`],
    ['is in capitals', `;Created=${SIGNED_AT}`],
    ['has 16 digits', `;created=0000001${SIGNED_AT}`],
  ])('whose created %s', (_, parameters) => {
    refusalOf(() => verifyCall(over(parameters)))
  })

  it.each<[string, string]>([
    ['a decimal created', `;created=${SIGNED_AT}.0`],
    ['a decimal created after a blank', `; created=${SIGNED_AT}.000`],
    ['created twice', `;created=1${created}`],
  ])('with %s on the wire, though what it parses to was signed', (_, onWire) => {
    const message = over(created)
    message.headers.set('signature-input', [`sig1=${member(onWire)}`])
    refusalOf(() => verifyCall(message))
  })

  it.each<[string, string]>([
    ['expires as a string', ';expires="1700000010"'],
    ['expires as a decimal', ';expires=1700000010.5'],
    ['expires before created', ';expires=1699999999'],
    ['expires at created', ';expires=1700000000'],
    ['alg rsa-pss-sha512', ';alg="rsa-pss-sha512"'],
    ['alg hmac-sha256', ';alg="hmac-sha256"'],
    ['alg Ed25519', ';alg="Ed25519"'],
    ['alg as a token', ';alg=ed25519'],
    ['alg empty', ';alg=""'],
    ['keyid as a token', ';keyid=abc'],
    ['nonce as a number', ';nonce=1'],
    ['tag as true', ';tag'],
    ['a decimal of its own', ';foo=1.0'],
    ['a date of its own', ';foo=@1'],
    ['9 KiB of its own', `;foo="${'a'.repeat(9 * 1024)}"`],
  ])('with %s, though truly signed', (_, parameters) => {
    refusalOf(() => verifyCall(over(created + parameters)))
  })

  it.each<[string, string, readonly string[]]>([
    ['nothing', '', []],
    ['@method twice', `${COMPONENTS} "@method"`, [...CALL_LINES, CALL_LINES[0]!]],
    [
      '"@method";req',
      COMPONENTS.replace('"@method"', '"@method";req'),
      CALL_LINES.with(0, '"@method";req: POST'),
    ],
    [
      '"authorization";bs for authorization',
      COMPONENTS.replace('"authorization"', '"authorization";bs'),
      CALL_LINES.with(3, `"authorization";bs: :${btoa('PoP header.payload.signature')}:`),
    ],
    ['"@signature-params"', `${COMPONENTS} "@signature-params"`, [...CALL_LINES, `"@signature-params": x`]],
    ['"@status"', `${COMPONENTS} "@status"`, [...CALL_LINES, `"@status": 200`]],
    ['a field that is not there', `${COMPONENTS} "x-a"`, [...CALL_LINES, `"x-a": `]],
    ['a name in capitals', COMPONENTS.replace('authorization', 'Authorization'), CALL_LINES],
    ['a token for a name', COMPONENTS.replace('"@path"', 'path'), CALL_LINES],
    ['a number for a name', `${COMPONENTS} 1`, CALL_LINES],
  ])('that covers %s, though truly signed', (_, components, lines) => {
    refusalOf(() => verifyCall(over(created, components, lines)))
  })

  it('that covers 65 components, though truly signed; 64 are well', () => {
    const extra = Array.from({ length: 61 }, (_, n) => `x-${n}`)
    const message = callMessage()
    for (const name of extra) message.headers.set(name, ['1'])
    verifyCall(signed(message, { components: [...CALL_COMPONENTS, ...extra.slice(1)] }))
    refusalOf(() => verifyCall(signed(message, { components: [...CALL_COMPONENTS, ...extra] })))
  })

  it.each(CALL_COMPONENTS)('that leaves out %s, though truly signed, and says so', left => {
    const components = CALL_COMPONENTS.filter(name => name !== left)
      .map(name => `"${name}"`)
      .join(' ')
    const lines = CALL_LINES.filter(line => !line.startsWith(`"${left}"`))
    expect(refusalOf(() => verifyCall(over(created, components, lines))).detail).toContain(left)
  })

  it('that covers a header named like a derived component', () => {
    const message = signedOver(callMessage(), member(created), CALL_LINES.with(2, '"@path": /mcp/bob'))
    message.headers.set('@path', ['/mcp/bob'])
    refusalOf(() => verifyCall(message))
  })

  it.each<[string, readonly string[]]>([
    ['the authority in capitals', CALL_LINES.with(1, '"@authority": TOOLS.example.com')],
    ['the authority with its default port', CALL_LINES.with(1, '"@authority": tools.example.com:443')],
    ['the authority with a trailing dot', CALL_LINES.with(1, '"@authority": tools.example.com.')],
    ['the method in lower case', CALL_LINES.with(0, '"@method": post')],
    ['the path decoded', CALL_LINES.with(2, '"@path": /mcp/%61lice')],
  ])('whose signer wrote %s', (_, lines) => {
    refusalOf(() => verifyCall(over(created, COMPONENTS, lines)))
  })

  it('that ends its base with a newline', () => {
    const base = `${CALL_LINES.join('\n')}\n"@signature-params": ${member(created)}\n`
    const signature = signEd25519(Buffer.from(base), agentKey).toString('base64')
    refusalOf(() => verifyCall(withFields(callMessage(), `sig1=${member(created)}`, `sig1=:${signature}:`)))
  })

  it('whose covered value brings in a line of its own', () => {
    const message = callMessage()
    message.headers.set('x-a', ['1\n"@path": /mcp/alice'])
    const lines = [CALL_LINES[0]!, CALL_LINES[1]!, CALL_LINES[3]!, '"x-a": 1', '"@path": /mcp/alice']
    const components = '"@method" "@authority" "authorization" "x-a" "@path"'
    refusalOf(() => verifyCall(signedOver(message, member(created, components), lines)))
  })
})

describe('the text of a signature', () => {
  const signature = signed(callMessage()).headers.get('signature')![0]!
  const base64 = signature.slice('sig1=:'.length, -1)
  const bytes = Buffer.from(base64, 'base64')

  it('is 88 canonical characters, however the field is laid out', () => {
    expect(() => verifyCall(altered('signature', () => ` sig1=:${base64}: `))).not.toThrow()
  })

  /** The last character before the padding carries four bits that decoders drop. */
  const otherBits = base64.slice(0, 85) + String.fromCharCode(base64.charCodeAt(85) + 1) + '=='

  it.each<[string, string]>([
    ['without padding', `sig1=:${base64.slice(0, -2)}:`],
    ['with other trailing bits', `sig1=:${otherBits}:`],
    ['in base64url', `sig1=:${base64.replaceAll('+', '-').replaceAll('/', '_').slice(0, -2)}:`],
    ['with a blank in it', `sig1=:${base64.slice(0, 8)} ${base64.slice(8)}:`],
    ['as a string', `sig1="${base64}"`],
    ['with a parameter', `sig1=:${base64}:;x`],
    ['in a list', `sig1=(:${base64}:)`],
    ['of 63 bytes', `sig1=:${bytes.subarray(0, 63).toString('base64')}:`],
    ['of 65 bytes', `sig1=:${Buffer.concat([bytes, Buffer.alloc(1)]).toString('base64')}:`],
    ['of no bytes', 'sig1=::'],
    ['twice over', `sig1=:${Buffer.concat([bytes, bytes]).toString('base64')}:`],
    ['under a label twice', `sig1=:AAAA:, ${signature}`],
  ])('is refused %s', (_, text) => {
    refusalOf(() => verifyCall(altered('signature', () => text)))
  })

  it('is refused with S beyond the group order, which would be a second spelling', () => {
    const order = 2n ** 252n + 27742317777372353535851937790883648493n
    const s = BigInt(`0x${Buffer.from(bytes.subarray(32)).reverse().toString('hex')}`) + order
    const forged = Buffer.concat([
      bytes.subarray(0, 32),
      Buffer.from(s.toString(16).padStart(64, '0'), 'hex').reverse(),
    ])
    refusalOf(() => verifyCall(altered('signature', () => `sig1=:${forged.toString('base64')}:`)))
  })
})
