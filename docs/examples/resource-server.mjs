/**
 * A resource server with one tool, written from the contract alone: it challenges, introspects (RFC 7662), checks, consumes and reports. Install
 * `http-message-sig` (RFC 9421). AS, RESOURCE (its public URL), OWNER, CLIENT_ID, CLIENT_SECRET and PORT stand in the environment.
 */
import { createHash, createPublicKey, verify } from 'node:crypto'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { verifySignature } from 'http-message-sig'

/* oxlint-disable eslint/no-restricted-globals, node/no-process-env -- a program of its own, which has nothing of usher */
const { AS, RESOURCE, OWNER, CLIENT_ID, CLIENT_SECRET, PORT } = process.env
const TOOL = { name: 'place_trade', id: `${OWNER}/trades`, scope: 'trade' }
const run = order => `Bought ${order.qty} ${order.symbol}`
const { origin, pathname } = new URL(RESOURCE)
const METADATA = `${origin}/.well-known/oauth-protected-resource${pathname}`

const byName = ([one], [other]) => (one < other ? -1 : 1)
const isObject = value => typeof value === 'object' && value !== null && !Array.isArray(value)
const sorted = (_, value) =>
  isObject(value) ? Object.fromEntries(Object.entries(value).sort(byName)) : value
const hash = text => createHash('sha256').update(text).digest('base64url')
const s256 = value => `s256:${hash(JSON.stringify(value, sorted))}`

/** Forms and JSON go to the authority alike. */
async function post(path, body, authorization) {
  const form = new URLSearchParams(body)
  const json = { 'content-type': 'application/json' }
  const sent = path === '/perm' || path === '/audit/access' ? [JSON.stringify(body), json] : [form, {}]
  const headers = { authorization, ...sent[1] }
  return (await fetch(AS + path, { method: 'POST', headers, body: sent[0] })).json()
}

async function ask(path, body) {
  const form = { grant_type: 'client_credentials', scope: 'uma_protection', owner: OWNER }
  const { access_token } = await post('/token', form, `Basic ${btoa(`${CLIENT_ID}:${CLIENT_SECRET}`)}`)
  return post(path, body, `Bearer ${access_token}`)
}

async function challenge() {
  const { ticket } = await ask('/perm', { resource_id: TOOL.id, resource_scopes: [TOOL.scope] })
  const type = 'https://u4a.ai/spec/core/1.0#tool-call'
  const named = { identifier: `${OWNER}/${TOOL.name}`, actions: ['call'], datatypes: [TOOL.scope] }
  const authorization_details = [{ type, locations: [RESOURCE], ...named }]
  const authorization_reference = s256(authorization_details)
  const remediation = { authorization_details, authorization_reference, authorization_server: AS, ticket }
  const encoded = Buffer.from(JSON.stringify(remediation)).toString('base64url')
  const error = 'insufficient_authorization'
  const where = { as_uri: AS, ticket, resource_metadata: METADATA, scope: TOOL.scope }
  const parameters = { realm: 'tools', error, ...where, authorization_remediation: encoded }
  const told = Object.entries(parameters).map(([name, value]) => `${name}="${value}"`)
  return [401, { error }, `UMA ${told.join(', ')}`]
}

/** Whether the key that the grant is bound to signed this request, now. */
function isProven({ method, url, headers }, jwk) {
  const key = createPublicKey({ key: jwk, format: 'jwk' })
  const check = (data, signature) => verify(null, data, key, signature)
  const fields = Object.entries(headers).map(([name, value]) => ({ name, value }))
  const signed = { kind: 'request', method, targetUri: RESOURCE, requestTarget: url, fields }
  const requiredComponents = ['@method', '@authority', '@path', 'authorization']
  const policy = { algorithms: ['ed25519'], requiredComponents, requiredParameters: ['created'], maxAge: 60 }
  const resolveVerifier = () => ({ algorithm: 'ed25519', verify: check })
  return verifySignature(signed, { policy, resolveVerifier }).then(
    () => true,
    () => false,
  )
}

async function answer(request, { id, params }) {
  const token = /^PoP (.+)$/i.exec(request.headers.authorization ?? '')?.[1]
  const grant = token && (await ask('/introspect', { token }))
  const covers = one => one.resource_id === TOOL.id && one.resource_scopes.includes(TOOL.scope)
  if (!grant?.active || !grant.permissions.some(covers) || params.name !== TOOL.name) return challenge()
  if (!(await isProven(request, grant.cnf.jwk)))
    return [401, { error: 'invalid_token' }, 'PoP error="invalid_token"']
  const arguments_ = params.arguments ?? {}
  if (grant.operation?.params_s256 !== s256(arguments_)) return [403, { error: 'operation_mismatch' }]
  if (!(await ask('/consume', { token })).consumed) return [403, { error: 'already_consumed' }]
  await ask('/audit/access', { family: grant.family, tool: TOOL.name })
  return [200, { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: run(arguments_) }] } }]
}

createServer(async (request, response) => {
  const document = { resource: RESOURCE, authorization_servers: [AS] }
  const [status, body, challenged] =
    request.method === 'GET'
      ? [200, document]
      : await text(request)
          .then(body => answer(request, JSON.parse(body)))
          .catch(() => [503, { error: 'temporarily_unavailable' }])
  const headers = {
    'content-type': 'application/json',
    ...(challenged && { 'www-authenticate': challenged }),
  }
  response.writeHead(status, headers).end(JSON.stringify(body))
}).listen(PORT, '127.0.0.1', () => console.log('serving'))
