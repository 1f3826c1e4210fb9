// What `helm test` runs: the authority says who it is, and a call without a grant is answered with a
// challenge. Nothing is granted or changed.
import { readFileSync } from 'node:fs'
import http from 'node:http'
import http2 from 'node:http2'
import https from 'node:https'

const { authority, sidecar, url } = JSON.parse(process.argv[1])
const SECONDS = 60

/** One request over HTTP; `servername` is what the certificate must say where it is not the host. */
function request(target, { method = 'GET', headers = {}, body, servername } = {}) {
  const { request: send } = target.startsWith('https:') ? https : http
  return new Promise((resolve, reject) => {
    const sent = send(
      target,
      { method, headers, timeout: 10_000, ...(servername && { servername }) },
      answer => {
        const parts = []
        answer.on('data', part => parts.push(part))
        answer.on('end', () =>
          resolve({
            status: answer.statusCode,
            headers: answer.headers,
            body: Buffer.concat(parts).toString(),
          }),
        )
      },
    )
    sent.on('timeout', () => sent.destroy(new Error('no answer within 10 s')))
    sent.on('error', reject)
    sent.end(body)
  })
}

// Protocol buffers as far as a check needs them: fields of bytes alone are written, and of an answer those
// and whole numbers read.
function varint(value) {
  const bytes = []
  for (; value > 127; value >>>= 7) bytes.push((value & 127) | 128)
  return Buffer.from([...bytes, value])
}
const field = (number, ...parts) => {
  const content = Buffer.concat(parts.map(part => Buffer.from(part)))
  return Buffer.concat([varint((number << 3) | 2), varint(content.length), content])
}
const pair = (number, [name, value]) => field(number, field(1, name), field(2, value))

function* fieldsOf(bytes) {
  let at = 0
  const number = () => {
    let [value, shift] = [0, 0]
    for (;;) {
      const byte = bytes[at++]
      value |= (byte & 127) << shift
      if (byte < 128) return value
      shift += 7
    }
  }
  while (at < bytes.length) {
    const tag = number()
    const length = number()
    if ((tag & 7) === 0) yield [tag >> 3, length]
    else yield [tag >> 3, bytes.subarray(at, (at += length))]
  }
}
const all = (bytes, number) => [...fieldsOf(bytes)].filter(([of]) => of === number).map(([, value]) => value)

/** Asks as a gateway does: envoy.service.auth.v3.Authorization/Check for a call without a grant. */
function check({ address, tls, path, method, headers, body }) {
  const facts = field(
    2,
    field(2, method),
    ...Object.entries(headers).map(entry => pair(3, entry)),
    field(4, path),
    ...(body === undefined ? [] : [field(12, body)]),
  )
  const source = field(1, field(1, field(1, field(2, '192.0.2.1'))))
  const message = field(1, source, field(4, facts))
  const frame = Buffer.alloc(5)
  frame.writeUInt32BE(message.length, 1)
  const credentials = tls && {
    cert: readFileSync(`${tls}/tls.crt`),
    key: readFileSync(`${tls}/tls.key`),
    ca: readFileSync(`${tls}/ca.crt`),
  }
  return new Promise((resolve, reject) => {
    const session = http2.connect(`${tls ? 'https' : 'http'}://${address}`, credentials)
    const fail = error => (session.destroy(), reject(error))
    session.on('error', fail)
    const stream = session.request({
      ':method': 'POST',
      ':path': '/envoy.service.auth.v3.Authorization/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    const parts = []
    let status = ''
    const note = headers => (status = headers['grpc-status'] ?? status)
    stream.on('response', note)
    stream.on('trailers', note)
    stream.on('data', part => parts.push(part))
    stream.on('error', fail)
    stream.setTimeout(10_000, () => fail(new Error('no answer within 10 s')))
    stream.on('end', () => {
      session.close()
      if (status !== '0') reject(new Error(`the check ended with gRPC status ${status}`))
      else resolve(answerOf(Buffer.concat(parts).subarray(5)))
    })
    stream.end(Buffer.concat([frame, message]))
  })
}

function answerOf(bytes) {
  const [denied] = all(bytes, 2)
  if (denied === undefined) return { status: 200, headers: {}, body: 'the check allowed the call' }
  const headers = all(denied, 2).map(option => {
    const [header] = all(option, 1)
    return [all(header, 1)[0].toString(), (all(header, 3)[0] ?? all(header, 2)[0]).toString()]
  })
  const [status] = all(denied, 1).flatMap(status => all(status, 1))
  return { status, headers: Object.fromEntries(headers), body: all(denied, 3).join('') }
}

async function walkAuthority({ base, servername, issuer }) {
  const found = await request(`${base}/.well-known/agents-configuration`, { servername })
  if (found.status !== 200) throw new Error(`its metadata is answered ${found.status}: ${found.body}`)
  const said = JSON.parse(found.body).issuer
  if (said !== issuer) throw new Error(`it calls itself ${said}, and is to be ${issuer}`)
  const keys = await request(`${base}/jwks`, { servername })
  if (JSON.parse(keys.body).keys.length === 0) throw new Error('it publishes no key')
  console.log(`The authority answers as ${issuer}.`)
}

function judge({ status, headers, body }, expected) {
  const challenge = headers['www-authenticate'] ?? ''
  if (status !== 401 || !challenge.startsWith('UMA ')) throw new Error(`no challenge, but ${status}: ${body}`)
  const as = /as_uri="([^"]+)"/.exec(challenge)?.[1]
  if (!/ticket="[^"]+"/.test(challenge)) throw new Error(`no ticket in ${challenge}`)
  if (expected !== undefined && as !== expected)
    throw new Error(`it sends agents to ${as}, not to ${expected}`)
  console.log(`A call without a grant is challenged, and sent to ${as}.`)
}

async function until(what, walk) {
  for (const end = Date.now() + SECONDS * 1000; ;) {
    try {
      return await walk()
    } catch (error) {
      if (Date.now() > end) throw new Error(`${what}: ${error.message}`, { cause: error })
      await new Promise(resolve => setTimeout(resolve, 2000))
    }
  }
}

const MCP = {
  headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
  bodyOf: tool =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: {} } }),
}

if (authority) await until(`The authority at ${authority.base}`, () => walkAuthority(authority))
if (url) {
  const sent = { method: 'POST', headers: MCP.headers, body: MCP.bodyOf(sidecar?.tool ?? 'any') }
  await until(`The gateway at ${url}`, async () => judge(await request(url, sent), sidecar?.authority))
} else if (sidecar) {
  const body = sidecar.mcp ? MCP.bodyOf(sidecar.tool) : undefined
  const asked = { ...sidecar, headers: sidecar.mcp ? MCP.headers : {}, body }
  await until(`The sidecar at ${sidecar.address}`, async () => judge(await check(asked), sidecar.authority))
} else console.log('No sidecar is asked: name test.url, or let the chart write its file (sidecar.config).')
