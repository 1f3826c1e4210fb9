/**
 * Owns the editor of one tier: she writes it, tries it on her past, and saves it only over the version that
 * she edited. What another device stored meanwhile is shown next to hers, and neither is lost. Contract:
 * "Owner API" (`/owner/policies*`, If-Match).
 */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Resource, Tier, VocabularyWord } from '../../wire/owner/owner-api.ts'
import { ApiFault, ask } from '../access/api.ts'
import { Asking, Fault } from '../parts/parts.tsx'
import { useDeed, useSession } from '../access/session.ts'
import { WORDS } from '../words.ts'
import { Differences } from './differences.tsx'
import { bodyOf, differences, draftOf, isSame, NEW_DRAFT, rebased, type Draft } from './draft.ts'
import { RulesEditor } from './rules-editor.tsx'
import { TermsFields } from './terms-fields.tsx'
import { TrialResult, tryOnPast, type TierTrial } from './trial.tsx'

const W = WORDS.rules
/** An id that the authority accepts (wire/names.ts), in the syntax of browser forms. */
const ID = String.raw`[A-Za-z0-9][A-Za-z0-9._\-]{0,63}`

export type SavedTier = Tier & { warnings?: string[]; clamped?: { text: string }[] }

interface Props {
  /** The tier as it is stored now; undefined for a new one, or one that another device removed. */
  tier: Tier | undefined
  resources: readonly Resource[]
  vocabulary: readonly VocabularyWord[]
  /** Reads again what is stored. */
  reload: () => void
  onSaved: (saved: SavedTier) => void
  onLeave: () => void
}

export function TierEditor({ tier, resources, vocabulary, reload, onSaved, onLeave }: Props) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const [isNew] = useState(tier === undefined)
  const [id, setId] = useState(tier?.id ?? '')
  const [base, setBase] = useState(tier)
  const before = base === undefined ? NEW_DRAFT : draftOf(base)
  const [draft, setDraft] = useState<Draft>(before)
  const [trial, setTrial] = useState<TierTrial>()
  const form = useRef<HTMLFormElement>(null)
  useLayoutEffect(() => form.current?.querySelector<HTMLElement>('h2, h3')?.focus(), [])
  const isTried = trial !== undefined && isSame(trial.draft, draft)
  const isStale = base !== undefined && tier?.terms.template_id !== base.terms.template_id
  const hasChanges = isNew || differences(before, draft).length > 0
  /** Whether every field is valid; the browser says which is not. */
  const isFit = (): boolean => form.current?.reportValidity() === true
  const attempt = (): void => {
    if (isFit()) run(async () => setTrial(await tryOnPast(access, id, draft)))
  }
  const save = (): void => {
    if (isFit()) run(store)
  }
  const store = async (): Promise<void> => {
    try {
      onSaved(
        base === undefined
          ? await ask(access, { method: 'POST', path: 'owner/policies', body: { id, ...bodyOf(draft) } })
          : await ask(access, {
              method: 'PUT',
              path: `owner/policies/${encodeURIComponent(base.id)}`,
              body: bodyOf(draft),
              headers: { 'if-match': `"${base.terms.template_id}"` },
            }),
      )
    } catch (error) {
      if (!(error instanceof ApiFault) || (error.status !== 412 && error.status !== 404)) throw error
      // What was stored meanwhile is shown when it is read; her edit is not touched.
      reload()
    }
  }
  return (
    <form
      ref={form}
      class="panel editor"
      aria-label={isNew ? W.newTier : W.editOf(before.name)}
      noValidate
      onSubmit={event => {
        event.preventDefault()
        attempt()
      }}
    >
      {isNew ? <h2 tabIndex={-1}>{W.newTier}</h2> : <h3 tabIndex={-1}>{W.editOf(before.name)}</h3>}
      {isStale ? (
        <Meanwhile
          base={base}
          theirs={tier}
          onRebase={theirs => {
            setDraft(rebased({ base: before, mine: draft, theirs: draftOf(theirs) }))
            setBase(theirs)
          }}
        />
      ) : null}
      {isNew ? <IdField id={id} onChange={setId} /> : null}
      <TermsFields
        id={id}
        draft={draft}
        resources={resources}
        onChange={changed => setDraft({ ...draft, ...changed })}
      />
      <RulesEditor
        rules={draft.rules}
        vocabulary={vocabulary}
        onChange={rules => setDraft({ ...draft, rules })}
      />
      {isNew ? null : (
        <section>
          <h3>{W.yourChanges}</h3>
          <Differences from={before} to={draft} none={W.noChanges} />
        </section>
      )}
      <div role="status">{isTried ? <TrialResult trial={trial} /> : null}</div>
      <Fault text={fault} />
      <Acts
        busy={busy}
        can={{ tried: isTried, stale: isStale, changed: hasChanges, isNew }}
        onSave={save}
        onLeave={onLeave}
      />
    </form>
  )
}

/** Another device was quicker: shows what it changed, and how her edit can continue. */
function Meanwhile({
  base,
  theirs,
  onRebase,
}: {
  base: Tier
  theirs: Tier | undefined
  onRebase: (theirs: Tier) => void
}) {
  if (theirs === undefined)
    return (
      <div class="notice warn" role="alert">
        <p>{W.removedMeanwhile}</p>
      </div>
    )
  return (
    <div class="notice warn meanwhile" role="alert">
      <p>{W.changedMeanwhile}</p>
      <Differences from={draftOf(base)} to={draftOf(theirs)} none={W.sameMeanwhile} />
      <button type="button" class="plain" onClick={() => onRebase(theirs)}>
        {W.rebase}
      </button>
    </div>
  )
}

function IdField({ id, onChange }: { id: string; onChange: (id: string) => void }) {
  return (
    <label>
      <span class="label">{W.id}</span>
      <input
        name="id"
        class="mono"
        required
        maxLength={64}
        pattern={ID}
        autocapitalize="off"
        spellcheck={false}
        value={id}
        onInput={event => onChange(event.currentTarget.value)}
      />
      <span class="note">{W.idHint}</span>
    </label>
  )
}

/**
 * The buttons: try, save, leave. An untried tier is saved on a second press; one that another device overtook
 * is not saved.
 */
function Acts(props: {
  busy: boolean
  can: { tried: boolean; stale: boolean; changed: boolean; isNew: boolean }
  onSave: () => void
  onLeave: () => void
}) {
  const { busy, can, onSave, onLeave } = props
  const { tried, stale, changed, isNew } = can
  return (
    <div class="row">
      <button type="submit" class={tried ? 'plain' : 'primary'} disabled={busy || !changed}>
        {W.tryIt}
      </button>
      {stale || !changed ? null : tried ? (
        <button type="button" class="primary" disabled={busy} onClick={onSave}>
          {W.save}
        </button>
      ) : (
        <Asking label={W.save} asks={W.untried} confirm={W.saveAnyway} busy={busy} onConfirm={onSave} />
      )}
      {changed && !isNew ? (
        <Asking label={W.discard} asks={W.discardAsk} confirm={W.discardNow} onConfirm={onLeave} />
      ) : (
        <button type="button" class="plain" onClick={onLeave}>
          {WORDS.waiting.cancel}
        </button>
      )}
    </div>
  )
}
