/**
 * Her resources that agents can ask for, their servers, and the origins whose servers may not ask her.
 * Contract: "Resource server registration", "Owner API" (`/owner/resource-servers*`, `/owner/resources`).
 */
import { useState } from 'preact/hooks'
import type { Banned, BannedOrigin, Resource, ResourceServerEntry } from '../../wire/owner/owner-api.ts'
import { ask, askAll, type Access } from '../access/api.ts'
import { Form } from '../parts/form.tsx'
import { Asking, Awaited, Chips, Fault, Nothing, PageHead } from '../parts/parts.tsx'
import { useDeed, useLoaded, useSession } from '../access/session.ts'
import { Field, Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { TextField } from '../parts/text-field.tsx'

const W = WORDS.resources

interface RegistryLists {
  servers: ResourceServerEntry[]
  resources: Resource[]
  banned: BannedOrigin[]
}

async function load(access: Access): Promise<RegistryLists> {
  const [servers, resources, banned] = await Promise.all([
    askAll<ResourceServerEntry>(access, 'owner/resource-servers'),
    askAll<Resource>(access, 'owner/resources'),
    askAll<BannedOrigin>(access, 'owner/resource-servers/banned'),
  ])
  return { servers, resources, banned }
}

const ORDER = { pending: 0, active: 1, revoked: 2 } as const

export function ResourcesPage() {
  const { data, fault, reload } = useLoaded(
    load,
    /^(resource_server|policy_changed|joint|organization|reset)/,
  )
  const servers = [...(data?.servers ?? [])].sort((a, b) => ORDER[a.status] - ORDER[b.status])
  const at = new Map(servers.map(one => [one.client_id, one]))
  return (
    <>
      <PageHead title={W.title} lead={W.lead} />
      <Awaited data={data} fault={fault} reload={reload} />
      {data === undefined ? null : (
        <>
          <h2 class="section">{W.servers}</h2>
          {servers.length === 0 ? <Nothing title={W.noServers} hint={W.noServersHint} /> : null}
          <ul class="list">
            {servers.map(one => (
              <Server key={one.client_id} server={one} banned={data.banned} onChanged={reload} />
            ))}
          </ul>
          <h2 class="section">{W.resources}</h2>
          {data.resources.length === 0 ? <Nothing title={W.noResources} hint={W.noResourcesHint} /> : null}
          <ul class="list">
            {data.resources.map(one => (
              <ResourceItem key={one._id} resource={one} server={one.client_id && at.get(one.client_id)} />
            ))}
          </ul>
          <Bans banned={data.banned} onChanged={reload} />
        </>
      )}
    </>
  )
}

function Server(props: {
  server: ResourceServerEntry
  banned: readonly BannedOrigin[]
  onChanged: () => void
}) {
  const { server, banned, onChanged } = props
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const { client_id, name, resource_uri, status, auth, registry } = server
  const origin = originOf(resource_uri)
  const isBannable = origin.startsWith('https://') && !banned.some(one => one.origin === origin)
  const decide = (decision: 'approved' | 'revoked'): void =>
    run(async () => {
      const body = { client_id, decision }
      await ask(access, { method: 'POST', path: 'owner/resource-servers/decision', body })
      onChanged()
    })
  return (
    <li class={`item${status === 'revoked' ? ' past' : ''}`} data-server={client_id}>
      <div class="item-head">
        <h3>
          <Shown text={name} />
        </h3>
        <span class={`tag ${status === 'active' ? 'good' : status === 'pending' ? 'warn' : ''}`}>
          {W.status[status]}
        </span>
      </div>
      <p class="mono small handle quiet">
        <Shown text={client_id} isName mono />
      </p>
      <dl class="pairs">
        <Field name={W.address}>
          <Shown text={resource_uri} isName mono />
        </Field>
        <Field name={W.proof}>{W.auth[auth]}</Field>
        <Field name={W.since}>{whenText(server.registered_at)}</Field>
        {server.decided_at === null ? null : <Field name={W.decided}>{whenText(server.decided_at)}</Field>}
        <Field name={W.lastSeen}>
          {server.last_pat_issued === null ? W.never : whenText(server.last_pat_issued)}
        </Field>
        <Field name={W.registry}>{registry === null ? W.notListed : <Registry registry={registry} />}</Field>
      </dl>
      <Fault text={fault} />
      <div class="row">
        {status === 'pending' || (status === 'revoked' && auth !== 'signature') ? (
          <Asking
            kind="primary"
            label={W.approve}
            asks={W.approveAsk(origin)}
            confirm={W.approveNow}
            busy={busy}
            onConfirm={() => decide('approved')}
          />
        ) : null}
        {status === 'revoked' ? null : (
          <Asking
            kind="plain deny"
            label={W.withdraw}
            asks={W.withdrawAsk}
            confirm={W.withdrawNow}
            busy={busy}
            onConfirm={() => decide('revoked')}
          />
        )}
        {isBannable ? <BanButton origin={origin} onChanged={onChanged} /> : null}
      </div>
    </li>
  )
}

function Registry({ registry }: { registry: NonNullable<ResourceServerEntry['registry']> }) {
  const { landed_at, failed_at, fault, conflicts } = registry
  return (
    <>
      {landed_at === null ? null : W.landed(whenText(landed_at))}
      {failed_at === null ? null : (
        <span class="note warn">
          {W.failed(whenText(failed_at))}
          {fault === null ? null : (
            <>
              {': '}
              <Shown text={fault} />
            </>
          )}
        </span>
      )}
      {conflicts === 0 ? null : <span class="note warn">{W.conflicts(conflicts)}</span>}
    </>
  )
}

function ResourceItem({
  resource,
  server,
}: {
  resource: Resource
  server: ResourceServerEntry | undefined | ''
}) {
  const { _id, name, type, resource_scopes, consequence, tier, tier_name, approval, source } = resource
  const known = consequence !== null && Object.hasOwn(WORDS.waiting.consequence, consequence)
  return (
    <li class="item" data-resource={_id}>
      <div class="item-head">
        <h3>
          <Shown text={_id} isName />
        </h3>
        {approval === 'signed' ? <span class="tag good">{W.signedOnly}</span> : null}
      </div>
      {name === _id ? null : (
        <p class="quiet">
          <Shown text={name} />
        </p>
      )}
      <dl class="pairs">
        <Field name={W.tier}>
          {tier === null ? (
            <span class="warn">{W.ungoverned}</span>
          ) : (
            <a href={`#/rules?tier=${encodeURIComponent(tier)}`}>
              <Shown text={tier_name ?? tier} />
            </a>
          )}
        </Field>
        <Field name={W.at}>
          {server ? <Shown text={originOf(server.resource_uri)} isName mono /> : W.sources[source]}
        </Field>
        <Field name={W.scopes}>
          <Chips texts={resource_scopes} />
        </Field>
        <Field name={W.consequence}>
          {known ? (
            WORDS.waiting.consequence[consequence]
          ) : (
            <Shown text={consequence ?? WORDS.waiting.consequence['unknown']!} />
          )}
        </Field>
        {type === null ? null : (
          <Field name={W.kind}>
            <Shown text={type} />
          </Field>
        )}
        <Field name={W.source}>{W.sources[source]}</Field>
      </dl>
      {approval === 'signed' ? <p class="note">{W.signedHint}</p> : null}
    </li>
  )
}

function BanButton({ origin, onChanged }: { origin: string; onChanged: () => void }) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  return (
    <>
      <Asking
        kind="plain deny"
        label={W.banThis}
        asks={W.banAsk(origin)}
        confirm={W.banNow}
        busy={busy}
        onConfirm={() => run(() => ban(access, origin).then(onChanged))}
      />
      <Fault text={fault} />
    </>
  )
}

function ban(access: Access, origin: string): Promise<Banned> {
  return ask(access, { method: 'POST', path: 'owner/resource-servers/ban', body: { origin } })
}

function Bans({ banned, onChanged }: { banned: readonly BannedOrigin[]; onChanged: () => void }) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const [origin, setOrigin] = useState('')
  const add = async (): Promise<void> => {
    await ban(access, origin.trim())
    setOrigin('')
    onChanged()
  }
  const unban = async (one: string): Promise<void> => {
    await ask(access, { method: 'POST', path: 'owner/resource-servers/unban', body: { origin: one } })
    onChanged()
  }
  return (
    <section>
      <h2 class="section">{W.banned}</h2>
      <p class="quiet">{W.bannedHint}</p>
      {banned.length === 0 ? null : (
        <ul class="lines">
          {banned.map(one => (
            <li key={one.origin} class="line" data-banned={one.origin}>
              <div class="item-head">
                <span>
                  <Shown text={one.origin} isName mono />
                  <span class="note">{whenText(one.banned_at)}</span>
                </span>
                <button
                  type="button"
                  class="plain"
                  disabled={busy}
                  onClick={() => run(() => unban(one.origin))}
                >
                  {W.unban}
                </button>
              </div>
            </li>
          ))}
        </ul>
      )}
      <Form class="panel" onSubmit={() => run(add)}>
        <TextField
          label={W.banOrigin}
          name="origin"
          type="url"
          class="mono"
          required
          maxLength={300}
          placeholder={W.originHint}
          value={origin}
          onValue={setOrigin}
        />
        <Fault text={fault} />
        <button type="submit" class="plain deny" disabled={busy}>
          {W.ban}
        </button>
      </Form>
    </section>
  )
}

function originOf(address: string): string {
  return URL.parse(address)?.origin ?? address
}
