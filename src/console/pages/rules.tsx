/**
 * Her rules: each tier with its terms and the rules that answer in her place; she edits, tries and removes
 * them. Contract: "Policy vocabulary and tiers", "Owner API" (`/owner/policies*`).
 */
import { useState } from 'preact/hooks'
import { secondsText } from '../../rules/words/rule-words.ts'
import type { Resource, Tier, VocabularyWord } from '../../wire/owner/owner-api.ts'
import { ask, askAll, type Access } from '../access/api.ts'
import { Asking, Awaited, Chips, Fault, Nothing, PageHead } from '../parts/parts.tsx'
import { draftOf, linesOf } from '../rules/draft.ts'
import { RuleLines } from '../rules/rule-lines.tsx'
import { TierEditor, type SavedTier } from '../rules/tier-editor.tsx'
import { allTiers } from '../rules/tiers.ts'
import { Warnings } from '../rules/trial.tsx'
import { useDeed, useLoaded, useSession, type PageProps } from '../access/session.ts'
import { Field, Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'

const W = WORDS.rules

interface Policy {
  tiers: Tier[]
  resources: Resource[]
  vocabulary: VocabularyWord[]
}

async function load(access: Access): Promise<Policy> {
  const [tiers, resources, vocabulary] = await Promise.all([
    allTiers(access),
    askAll<Resource>(access, 'owner/resources'),
    ask<VocabularyWord[]>(access, { path: 'owner/policy-vocabulary' }),
  ])
  return { tiers, resources, vocabulary }
}

/** What is being edited: a tier by its id, or `''` for a new one. */
type Editing = string | undefined

export function RulesPage({ query }: PageProps) {
  const { data, fault, reload } = useLoaded(load, /^(policy_changed|resource_server|organization|reset)/)
  const [editing, setEditing] = useState<Editing>()
  const [saved, setSaved] = useState<SavedTier>()
  const target = query.get('tier')
  const isOver = (): void => setEditing(undefined)
  const done = (tier: SavedTier): void => {
    setSaved(tier)
    isOver()
    reload()
  }
  const edit = (id: string): void => {
    setSaved(undefined)
    setEditing(id)
  }
  // If another device removed it, editing continues: she is told, and what she wrote stays.
  const ids = [...new Set([...(data?.tiers ?? []).map(({ id }) => id), ...(editing ? [editing] : [])])]
  return (
    <>
      <PageHead title={W.title} lead={W.lead}>
        {data === undefined || editing !== undefined ? null : (
          <button type="button" class="plain" onClick={() => edit('')}>
            {W.add}
          </button>
        )}
      </PageHead>
      <Awaited data={data} fault={fault} reload={reload} />
      <div role="status">{saved === undefined ? null : <Saved tier={saved} />}</div>
      {data === undefined ? null : (
        <>
          {editing === '' ? (
            <TierEditor tier={undefined} {...data} reload={reload} onSaved={done} onLeave={isOver} />
          ) : null}
          {data.tiers.length === 0 && editing === undefined ? (
            <Nothing title={W.none} hint={W.noneHint} />
          ) : null}
          <ul class="list">
            {ids.map(id => {
              const tier = data.tiers.find(one => one.id === id)
              return (
                <li
                  key={id}
                  class={editing === id ? '' : `item${id === target ? ' wanted' : ''}`}
                  data-tier={id}
                >
                  {editing === id ? (
                    <TierEditor tier={tier} {...data} reload={reload} onSaved={done} onLeave={isOver} />
                  ) : tier === undefined ? null : (
                    <TierView tier={tier} onEdit={() => edit(id)} onRemoved={reload} />
                  )}
                </li>
              )
            })}
          </ul>
        </>
      )}
    </>
  )
}

function Saved({ tier }: { tier: SavedTier }) {
  const { warnings = [], clamped = [] } = tier
  return (
    <>
      <p class="notice good">{W.saved(tier.name)}</p>
      <Warnings warnings={[...warnings, ...clamped.map(({ text }) => text)]} />
    </>
  )
}

function TierView({ tier, onEdit, onRemoved }: { tier: Tier; onEdit: () => void; onRemoved: () => void }) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const { id, name, resources, ask_me, rules, terms } = tier
  const remove = async (): Promise<void> => {
    await ask(access, {
      method: 'DELETE',
      path: `owner/policies/${encodeURIComponent(id)}`,
      headers: { 'if-match': `"${terms.template_id}"` },
    })
    onRemoved()
  }
  const clearance = linesOf(draftOf(tier), 'clearance')
  return (
    <>
      <div class="item-head">
        <h2>
          <Shown text={name} />
        </h2>
        <span class={`tag ${ask_me ? 'warn' : 'good'}`}>{ask_me ? W.asks : W.letsThrough}</span>
      </div>
      <p class="mono small handle quiet">
        <Shown text={terms.template_id} isName mono />
      </p>
      <dl class="pairs">
        <Field name={W.members.purpose}>
          <Shown text={terms.purpose} />
        </Field>
        <Field name={W.members.resources}>
          <Chips texts={resources} none={W.governsNothing} />
        </Field>
        <Field name={W.members.scope}>
          <Chips texts={terms.scope} />
        </Field>
        <Field name={W.members.expires_in}>{secondsText(terms.expires_in)}</Field>
        <Field name={W.members.prohibited}>
          <Chips texts={terms.prohibited} none={WORDS.waiting.nothingProhibited} />
        </Field>
        {clearance.length === 0 ? null : (
          <Field name={W.members.clearance}>
            <Chips texts={clearance} />
          </Field>
        )}
      </dl>
      <div>
        <h3>{W.rules}</h3>
        <p class="sentence">{ask_me ? W.asksEach : W.asksSome}</p>
        {rules.length === 0 ? <p class="quiet">{W.noRules}</p> : null}
        <RuleLines rules={rules} />
      </div>
      <Fault text={fault} />
      <div class="row">
        <button type="button" class="plain" onClick={onEdit}>
          {W.edit}
        </button>
        <Asking
          kind="plain deny"
          label={W.remove}
          asks={W.removeAsk}
          confirm={W.removeNow}
          busy={busy}
          onConfirm={() => run(remove)}
        />
      </div>
    </>
  )
}
