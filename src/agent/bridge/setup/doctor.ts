/**
 * Owns `usher agent bridge doctor`: it finds out, step by step, what keeps the bridge from working with a
 * resource. Contract: "Resource metadata (RFC 9728)", "Authentication" (the clock within 60 s),
 * "Authorization server metadata members".
 */
import { thumbprintHandle } from '../../../wire/agents/handles.ts'
import type { ClientConfig } from '../../../config.ts'
import { Exit, EXIT, type Terminal } from '../../../terminal/command.ts'
import { printable } from '../../../terminal/printable.ts'
import { parseJwks } from '../../../wire/signatures/keys.ts'
import { parseResourceMetadata, resourceMetadataUrl } from '../../../wire/resources/resource-metadata.ts'
import { AgentError, fail, reading } from '../../agent-error.ts'
import { NOTHING_THERE } from '../../answer.ts'
import { createDirectory } from '../../negotiation/metadata.ts'
import {
  checkAddress,
  DOCUMENT_BYTES_MAX,
  DOCUMENT_SECONDS_MAX,
  exchange,
  fetchDocument,
  readObject,
} from '../../transports/transport.ts'
import { sentence } from '../answers/answers.ts'
import { bridgeState } from '../negotiation/state.ts'
import { listedTools, TASK_ONLY_WHY } from '../listing/tools.ts'
import { openUpstream, type Upstream } from '../upstream/upstream.ts'
import { JSON_TYPE } from '../protocol.ts'

export interface DiagnoseOptions {
  resource: string
  clientName: string | undefined
  stateRoot: string
  config: ClientConfig
}

/** Says how a step went; its value, undefined if it failed. */
type Check = <T>(what: string, step: () => Promise<{ message: string; value: T }>) => Promise<T | undefined>

/** How many seconds a clock may be wrong. */
const CLOCK_SECONDS_MAX = 60

/** Says for each check whether it passed; fails with exit code 1 if one did not. */
export async function diagnose(options: DiagnoseOptions, terminal: Terminal): Promise<void> {
  const { resource, config } = options
  const allowLoopback = config.devLoopback
  const now = (): number => Math.floor(Date.now() / 1000)
  let faults = 0
  const check: Check = async (what, step) => {
    try {
      const { message, value } = await step()
      terminal.out(`ok    ${what}: ${printable(message)}\n`)
      return value
    } catch (error) {
      faults++
      const why = error instanceof AgentError ? sentence(error) : String(error)
      terminal.out(`FAIL  ${what}: ${printable(why)}\n`)
      return undefined
    }
  }
  const url = await check('address', async () => ({
    message: resource,
    value: checkAddress(resource, allowLoopback, 'resource'),
  }))
  if (url === undefined) throw new Exit(EXIT.refused)
  const clock = { date: undefined as string | undefined }
  const authorities = await check('metadata', () => readMetadata(resource, clock))
  if (authorities !== undefined) await check('clock', async () => readClock(url, clock.date, now()))
  const directory = createDirectory({ allowLoopback, now })
  for (const issuer of authorities ?? []) {
    await check('authority', async () => {
      const authority = await directory.authorityNamed(resource, issuer)
      const keys = parseJwks(await fetchDocument(authority.jwksUri, "authority's keys"))
      if (keys.length === 0) fail('answer_malformed', `${issuer} publishes no key.`)
      return { message: `${issuer}, ${keys.length} ${keys.length === 1 ? 'key' : 'keys'}`, value: undefined }
    })
  }
  await check('key', () => readKey(options))
  await checkTools(options, url, check)
  if (faults > 0) throw new Exit(EXIT.refused)
}

/** Names the tools that no call reaches, each with the reason. */
async function checkTools({ resource, config }: DiagnoseOptions, url: URL, check: Check): Promise<void> {
  const upstream = openUpstream({
    resource,
    url,
    specNs: config.specNs,
    now: () => Math.floor(Date.now() / 1000),
    capabilities: () => ({}),
    onToolsChanged: () => undefined,
  })
  const unusable = await check('tools', async () => {
    const { tools, spoilt } = await upstream.listTools().catch(withStatus)
    const value = [...spoilt]
    const shown = listedTools(resource, '', tools, tool => void value.push(tool))
    const closed = shown.filter(({ isTaskOnly }) => isTaskOnly).map(({ tool }) => tool)
    return { message: `${shown.length}`, value: { left: value, closed } }
  })
  const quoted = (name: string): string => `"${name.replaceAll('"', "'")}"`
  for (const { name, why, part } of unusable?.left ?? [])
    await check('tool', async () =>
      fail(
        'answer_malformed',
        `${part === undefined ? '' : `${part} `}${quoted(name)} is left out of the list: ${why}.`,
      ),
    )
  for (const name of unusable?.closed ?? [])
    await check('tool', async () =>
      fail('task_required', `${quoted(name)} is listed as closed: ${TASK_ONLY_WHY}.`),
    )
  if (unusable !== undefined) await checkStream(upstream, check)
  await upstream.close()
}

/** Most tools ask on the stream of their call, so a stream of the session that does not pass is no fault. */
async function checkStream(upstream: Upstream, check: Check): Promise<void> {
  const hears = await upstream.hearsSession().catch(() => undefined)
  if (hears === undefined) return
  const message = hears ? 'the stream of the session (GET) passes without a grant' : CLOSED_STREAM
  await check('stream', async () => ({ message, value: undefined }))
}

const CLOSED_STREAM =
  'the stream of the session (GET) does not pass without a grant: a tool that asks its client there waits for ' +
  'nobody, even in a call that the owner approved. `GET: free` below `methods` at the enforcement point lets it pass'

/** Names the status that the resource answered with, if the SDK's client was told one. */
function withStatus(error: unknown): never {
  const { cause } = error as { cause?: { status?: unknown } }
  if (!(error instanceof AgentError) || typeof cause?.status !== 'number') throw error
  const hint = cause.status === 404 ? ` ${NOTHING_THERE}` : ''
  return fail('unreachable', `${error.detail} It answered with status ${cause.status}.${hint}`, {
    cause: error,
  })
}

const UNPUBLISHED =
  ' No resource is published for that address: correct it. If it is yours, its gateway must send this path to ' +
  'listen.http of the sidecar, whose file must have the resource.'

async function readMetadata(
  resource: string,
  clock: { date: string | undefined },
): Promise<{ message: string; value: string[] }> {
  const url = new URL(
    reading('request_invalid', 'The resource has no metadata address', () => resourceMetadataUrl(resource)),
  )
  const headers = { accept: JSON_TYPE }
  const answer = await exchange(
    { method: 'GET', url, headers, timeoutSeconds: DOCUMENT_SECONDS_MAX },
    DOCUMENT_BYTES_MAX,
  )
  clock.date = answer.headers.get('date') ?? undefined
  if (answer.status !== 200)
    fail(
      'unreachable',
      `${url.href} answered with status ${answer.status}.${answer.status === 404 ? UNPUBLISHED : ''}`,
    )
  const document = readObject(answer, 'resource metadata')
  const metadata = reading('challenge_untrusted', 'It is not usable', () =>
    parseResourceMetadata(document, resource),
  )
  const issuers = metadata.authorization_servers ?? []
  if (issuers.length === 0)
    fail('challenge_untrusted', 'It names no authorization server, so no challenge would be believed.')
  return { message: issuers.join(', '), value: issuers }
}

/** The difference between this clock and the resource's. */
function readClock(url: URL, date: string | undefined, now: number): { message: string; value: undefined } {
  const remote = Date.parse(date ?? '') / 1000
  if (Number.isNaN(remote)) return { message: `${url.origin} does not tell its time`, value: undefined }
  const off = Math.round(now - remote)
  if (Math.abs(off) > CLOCK_SECONDS_MAX) {
    const which = off > 0 ? 'ahead of' : 'behind'
    fail(
      'request_invalid',
      `This clock is ${Math.abs(off)} s ${which} that of ${url.origin}; signatures need ${CLOCK_SECONDS_MAX} s at most. Set the clock that is wrong, by NTP.`,
    )
  }
  return { message: `${Math.abs(off)} s apart`, value: undefined }
}

/** The key for this resource's owner, if there is one yet. */
async function readKey({
  resource,
  clientName,
  stateRoot,
}: DiagnoseOptions): Promise<{ message: string; value: undefined }> {
  if (clientName === undefined)
    return { message: 'give --client-name to have it looked at', value: undefined }
  const state = bridgeState(stateRoot, clientName)
  const owner = await state.ownerOf(resource)
  if (owner === undefined)
    return { message: 'none yet; it is made when terms are first signed', value: undefined }
  const { key, file } = await state.keyOf(owner)
  const whose = `for ${owner.owner} at ${owner.as_uri}`
  if (key === undefined)
    return fail(
      'state_unusable',
      `${file} is gone, which held the key ${whose}: put it back, or another one is made at the next call, which is another agent to her.`,
    )
  return {
    message: `${thumbprintHandle(key)} ${whose}, in ${file}`,
    value: undefined,
  }
}
