/**
 * Our message definitions against the official ones: same names, numbers and types, same bytes. contract,
 * "Resource server enforcement point".
 */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeCheckResponse } from '../../src/enforcement/doors/grpc/check-response-bytes.ts'
import { codec, official, ours, type AnyMessage } from '../support/envoy-protos.ts'
import { inputsOfLayer } from '../support/layer.ts'

interface FieldDescriptor {
  name: string
  number: number
  label: string
  type: string
  typeName: string
}

interface Descriptor {
  name: string
  field?: FieldDescriptor[]
  nestedType?: Descriptor[]
  enumType?: Descriptor[]
  value?: { name: string; number: number }[]
}

/** Every message and enum by full name, nested ones too. */
function flatten(definitions: typeof ours): Map<string, Descriptor> {
  const found = new Map<string, Descriptor>()
  const add = (name: string, descriptor: Descriptor): void => {
    found.set(name, descriptor)
    for (const inner of [...(descriptor.nestedType ?? []), ...(descriptor.enumType ?? [])]) {
      add(`${name}.${inner.name}`, inner)
    }
  }
  for (const [name, definition] of Object.entries(definitions)) {
    if ('type' in definition) add(name, definition.type as Descriptor)
  }
  return found
}

const officialTypes = flatten(official)
const ownTypes = [...flatten(ours)].filter(([name]) => /^(envoy|google\.rpc)\./.test(name))
const withFields = ownTypes.filter(([, { field }]) => field !== undefined)
const withValues = ownTypes.filter(([, { value }]) => value !== undefined)

const shape = ({ name, number, label, type, typeName }: FieldDescriptor): FieldDescriptor => ({
  name,
  number,
  label,
  type,
  typeName: typeName.split('.').at(-1)!,
})

describe('every message that we define is the official one, in part', () => {
  test('none of ours is missing from this comparison', () => {
    expect(withFields.map(([name]) => name).sort()).toEqual([
      'envoy.config.core.v3.Address',
      'envoy.config.core.v3.HeaderMap',
      'envoy.config.core.v3.HeaderValue',
      'envoy.config.core.v3.HeaderValueOption',
      'envoy.config.core.v3.Pipe',
      'envoy.config.core.v3.SocketAddress',
      'envoy.service.auth.v3.AttributeContext',
      'envoy.service.auth.v3.AttributeContext.Context_extensions',
      'envoy.service.auth.v3.AttributeContext.HttpRequest',
      'envoy.service.auth.v3.AttributeContext.HttpRequest.Headers',
      'envoy.service.auth.v3.AttributeContext.Peer',
      'envoy.service.auth.v3.AttributeContext.Request',
      'envoy.service.auth.v3.CheckRequest',
      'envoy.service.auth.v3.CheckResponse',
      'envoy.service.auth.v3.DeniedHttpResponse',
      'envoy.service.auth.v3.OkHttpResponse',
      'envoy.type.v3.HttpStatus',
      'google.rpc.Status',
    ])
  })

  test.each(withFields)('%s has official names, numbers, labels and types', (name, { field }) => {
    const known = new Map((officialTypes.get(name)?.field ?? []).map(each => [each.name, shape(each)]))
    expect(field!.length).toBeGreaterThan(0)
    for (const each of field!) expect(known.get(each.name)).toEqual(shape(each))
  })

  test.each(withValues)('%s has official names and numbers', (name, { value }) => {
    expect(officialTypes.get(name)?.value).toEqual(expect.arrayContaining(value!))
  })

  test('no host, no scheme and no error_response can be read or written', () => {
    const fieldsOf = (name: string): string[] =>
      ownTypes.find(([known]) => known === name)![1].field!.map(each => each.name)
    expect(fieldsOf('envoy.service.auth.v3.AttributeContext.HttpRequest')).not.toContain('host')
    expect(fieldsOf('envoy.service.auth.v3.AttributeContext.HttpRequest')).not.toContain('scheme')
    expect(fieldsOf('envoy.service.auth.v3.CheckResponse')).not.toContain('error_response')
  })

  test('the service and its method are the official ones', () => {
    const method = (definitions: typeof ours): object => {
      const service = definitions['envoy.service.auth.v3.Authorization'] as unknown as Record<string, object>
      const { path, requestStream, responseStream } = service['Check'] as Record<string, unknown>
      return { methods: Object.keys(service), path, requestStream, responseStream }
    }
    expect(method(ours)).toEqual(method(official))
  })
})

const text = fc.string({ unit: 'grapheme', maxLength: 20 })
const bytes = fc.uint8Array({ maxLength: 40 }).map(array => Buffer.from(array))
const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,10}$/)
const dictionary = fc.dictionary(name, text, { noNullPrototype: true, minKeys: 1, maxKeys: 4 })
const optional = <T extends AnyMessage>(model: {
  [K in keyof T]: fc.Arbitrary<T[K]>
}): fc.Arbitrary<AnyMessage> => fc.record(model, { requiredKeys: [] }).map(message => ({ ...message }))
const several = <T>(each: fc.Arbitrary<T>): fc.Arbitrary<T[]> =>
  fc.array(each, { minLength: 1, maxLength: 4 })

const address = fc.oneof(
  optional({ socket_address: optional({ address: text }) }),
  optional({ pipe: optional({ path: text }) }),
)
const ownHttp = {
  method: text,
  headers: dictionary,
  path: text,
  size: fc.maxSafeInteger(),
  body: text,
  raw_body: bytes,
  header_map: optional({ headers: several(optional({ key: name, value: text, raw_value: bytes })) }),
}
/** Fields of the same messages that we do not define. */
const foreignHttp = {
  id: text,
  host: text,
  scheme: fc.constantFrom('http', 'https'),
  query: text,
  fragment: text,
  protocol: fc.constant('HTTP/2'),
}

const request = (
  http: Record<string, fc.Arbitrary<unknown>>,
  foreign: Record<string, fc.Arbitrary<unknown>> = {},
) =>
  optional({
    attributes: optional({
      source: optional({ address }),
      request: optional({ http: optional(http) }),
      context_extensions: dictionary,
      ...foreign,
    }),
  })

const options = several(
  optional({
    header: optional({ key: name, value: text }),
    append: optional({ value: fc.boolean() }),
    append_action: fc.integer({ min: 0, max: 3 }),
  }),
)
const response = fc
  .tuple(
    optional({ status: optional({ code: fc.integer({ min: -1000, max: 1000 }), message: text }) }),
    fc.oneof(
      optional({
        denied_response: optional({
          status: optional({ code: fc.constantFrom(400, 401, 403, 404, 405, 413, 415, 429, 500, 503) }),
          headers: options,
          body: text,
        }),
      }),
      optional({ ok_response: optional({ headers: options, headers_to_remove: several(text) }) }),
    ),
    optional({
      dynamic_metadata: fc
        .dictionary(
          name,
          text.map(stringValue => ({ stringValue })),
          { noNullPrototype: true, minKeys: 1 },
        )
        .map(fields => ({ fields })),
    }),
  )
  .map(([status, answer, metadata]): AnyMessage => ({ ...status, ...answer, ...metadata }))

const REQUEST = 'envoy.service.auth.v3.CheckRequest'
const RESPONSE = 'envoy.service.auth.v3.CheckResponse'

/** Without fields that ours does not define, at every depth that has any. */
function known(message: AnyMessage): AnyMessage {
  const { attributes } = message as { attributes?: AnyMessage & { request?: { http?: AnyMessage } } }
  if (attributes === undefined) return message
  const keep = (object: AnyMessage, names: string[]): AnyMessage =>
    Object.fromEntries(Object.entries(object).filter(([key]) => names.includes(key)))
  const http = attributes.request?.http
  return {
    attributes: {
      ...keep(attributes, ['source', 'context_extensions']),
      ...(attributes.request && { request: http ? { http: keep(http, Object.keys(ownHttp)) } : {} }),
    },
  }
}

describe('bytes written by either side are read alike by the other', () => {
  test.each([
    ['CheckRequest', REQUEST, request(ownHttp)],
    ['CheckResponse', RESPONSE, response],
  ])('%s survives both directions', (_title, type, messages) => {
    fc.assert(
      fc.property(messages, message => {
        const [own, theirs] = [codec(ours, type), codec(official, type)]
        expect(theirs.serialize(message)).toEqual(own.serialize(message))
        expect(theirs.deserialize(own.serialize(message))).toEqual(own.deserialize(own.serialize(message)))
        expect(own.deserialize(theirs.serialize(message))).toEqual(
          theirs.deserialize(theirs.serialize(message)),
        )
      }),
      { numRuns: inputsOfLayer(2000) },
    )
  })

  test('the enforcement point writes a CheckResponse in the bytes that the official definitions give it', () => {
    const whole = <T extends AnyMessage>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
      fc.record(model, { requiredKeys: Object.keys(model) }).map(message => ({ ...message }))
    const headers = fc.array(
      whole({
        header: whole({ key: name, value: fc.oneof(text, fc.string({ minLength: 100, maxLength: 20_000 })) }),
        append: whole({ value: fc.boolean() }),
        append_action: fc.integer({ min: 0, max: 3 }),
      }),
      { maxLength: 4 },
    )
    const status = whole({ code: fc.integer({ min: 0, max: 16 }), message: text })
    const denial = whole({
      status: whole({ code: fc.constantFrom(400, 401, 403, 404, 405, 413, 415, 429, 500, 503) }),
      headers,
      body: fc.oneof(text, fc.string({ unit: 'grapheme', maxLength: 3_000 })),
    })
    const permission = whole({ headers, headers_to_remove: fc.array(text, { maxLength: 20 }) })
    const metadata = whole({
      fields: fc.dictionary(name, whole({ stringValue: text }), { noNullPrototype: true }),
    })
    const messages = fc
      .record(
        { status, denied_response: denial, ok_response: permission, dynamic_metadata: metadata },
        { requiredKeys: ['status'] },
      )
      .map(({ ok_response, ...rest }) =>
        rest.denied_response === undefined && ok_response !== undefined ? { ...rest, ok_response } : rest,
      )
    fc.assert(
      fc.property(messages, message => {
        expect(encodeCheckResponse(message)).toEqual(codec(official, RESPONSE).serialize(message))
      }),
      { numRuns: inputsOfLayer(2000) },
    )
  })

  test('fields that we do not define are skipped and disturb nothing', () => {
    const foreign = {
      destination: optional({ service: text, principal: text, labels: dictionary, certificate: text }),
      tls_session: optional({ sni: text }),
      metadata_context: fc.constant({ filter_metadata: { 'envoy.filters.http.mcp': { fields: {} } } }),
    }
    fc.assert(
      fc.property(request({ ...ownHttp, ...foreignHttp }, foreign), message => {
        const wire = codec(official, REQUEST).serialize(message)
        const seen = codec(official, REQUEST).deserialize(wire)
        expect(codec(ours, REQUEST).deserialize(wire)).toEqual(known(seen))
      }),
      { numRuns: inputsOfLayer(2000) },
    )
  })

  test('an allow that says nothing else still has its status on the wire', () => {
    expect(
      codec(ours, RESPONSE)
        .serialize({ status: { code: 0 } })
        .subarray(0, 1),
    ).toEqual(Buffer.of(0x0a))
    expect(codec(ours, RESPONSE).serialize({})).toHaveLength(0)
  })
})

describe('the health messages have the bytes of grpc.health.v1', () => {
  test.each([
    ['a request about the whole server', 'HealthCheckRequest', {}, ''],
    ['a request about a service', 'HealthCheckRequest', { service: 'ab' }, '0a026162'],
    ['serving', 'HealthCheckResponse', { status: 1 }, '0801'],
    ['not serving', 'HealthCheckResponse', { status: 2 }, '0802'],
    ['unknown service', 'HealthCheckResponse', { status: 3 }, '0803'],
  ])('%s', (_title, type, message, hex) => {
    expect(codec(ours, `grpc.health.v1.${type}`).serialize(message).toString('hex')).toBe(hex)
  })

  test('its methods stand at the paths that probes call', () => {
    const service = ours['grpc.health.v1.Health'] as unknown as Record<string, Record<string, unknown>>
    expect(service['Check']).toMatchObject({ path: '/grpc.health.v1.Health/Check', responseStream: false })
    expect(service['Watch']).toMatchObject({ path: '/grpc.health.v1.Health/Watch', responseStream: true })
  })
})
