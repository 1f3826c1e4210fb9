/**
 * Owns her act: approve, deny with a reason, or block the agent's operator. An act that cannot be undone
 * needs a deliberate step, holding a button or typing a word, and never one stray tap. Contract: "Owner API".
 */
import { useCallback, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { DecisionItem } from '../../wire/owner/decision-item.ts'
import { canonicalize } from '../../wire/json.ts'
import { ApiFault, ask } from '../access/api.ts'
import { approve, deny } from '../decision.ts'
import { CheckBox } from '../parts/check-box.tsx'
import { Form, FormEnd } from '../parts/form.tsx'
import { Asking, Fault } from '../parts/parts.tsx'
import { useDeed, useSession } from '../access/session.ts'
import { Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import { DenyForm } from './deny-form.tsx'
import { cardWithFocus, keepingFocus, takeFocus } from './focus.ts'
import { isGrave } from './groups.ts'
import { HoldButton } from './hold-button.tsx'
import { mayApproveOnly } from './lasting.ts'
import type { ItemOutcome } from './outcome.ts'
import { useSigner } from './signer.tsx'
import { TextField } from '../parts/text-field.tsx'

const W = WORDS.waiting
const A = WORDS.allowances

interface Props {
  item: DecisionItem
  /** A first contact is let in only for its tier; an operation is approved, and opens no tier. */
  only: boolean
  onOnly: (only: boolean) => void
  onSettled: (outcome: ItemOutcome) => void
  onChanged: () => void
}

export function Decide({ item, only, onOnly, onSettled, onChanged }: Props) {
  const { access } = useSession()
  const { passkey, choice } = useSigner()
  const [isDenying, setDenying] = useState(false)
  const { hasChanged, setChanged } = useChanged(item)
  const { busy, fault, deed } = useDecisionDeed({ onSettled, onChanged, setChanged })
  const approveIt = useCallback(
    () =>
      deed(async () => {
        await approve(access, item, { only, passkey })
        return { what: 'approved', here: true }
      }),
    [deed, access, item, only, passkey],
  )
  const denyIt = (reason: string): void =>
    deed(async () => {
      await deny(access, item, reason)
      return { what: 'denied', here: true }
    })
  const blockIt = (origin: string): void =>
    deed(async () => {
      await ask(access, { method: 'POST', path: 'owner/operators/block', body: { origin } })
      onChanged()
      return undefined
    })
  return (
    <div class="decide">
      {hasChanged ? (
        <p class="notice warn" role="alert">
          {W.changed}
        </p>
      ) : null}
      <Fault text={fault} />
      {isDenying ? (
        <DenyForm
          busy={busy}
          confirm={W.denyNow}
          onDeny={denyIt}
          onCancel={() => keepingFocus(() => setDenying(false))}
        />
      ) : (
        <>
          {mayApproveOnly(item) ? <Only item={item} isOnly={only} onChange={onOnly} /> : null}
          {choice}
          <div class="row main-acts">
            {hasChanged ? (
              <button type="button" class="plain" onClick={() => keepingFocus(() => setChanged(false))}>
                {W.lookedAgain}
              </button>
            ) : isGrave(item) ? (
              <GraveApproval item={item} busy={busy} onApprove={approveIt} />
            ) : (
              <button type="button" class="primary" data-key="a" disabled={busy} onClick={approveIt}>
                {busy ? W.approving : W.approve}
              </button>
            )}
            <button
              type="button"
              class="plain deny"
              data-key="d"
              disabled={busy}
              onClick={() => setDenying(true)}
            >
              {W.deny}
            </button>
          </div>
          <div class="row less">
            <a href={`#/agents?handle=${encodeURIComponent(item.agent.handle)}`}>{W.agentPage}</a>
            {item.operator === undefined ? null : (
              <Asking
                kind="link"
                label={W.block}
                asks={W.blockAsk(item.operator.origin)}
                confirm={W.blockNow}
                busy={busy}
                onConfirm={() => blockIt(item.operator!.origin)}
              />
            )}
          </div>
        </>
      )}
    </div>
  )
}

/**
 * Her act on this card, one at a time; a refusal that says how the item is now, or how it ended, is no fault.
 */
function useDecisionDeed({
  onSettled,
  onChanged,
  setChanged,
}: Pick<Props, 'onSettled' | 'onChanged'> & { setChanged: (hasChanged: boolean) => void }) {
  const { busy, fault, run } = useDeed()
  const deed = useCallback(
    (act: () => Promise<ItemOutcome | undefined>) => {
      const card = cardWithFocus()
      let isSettled = false
      const settle = (outcome: ItemOutcome): void => {
        isSettled = true
        onSettled(outcome)
      }
      run(async () => {
        try {
          const outcome = await act()
          if (outcome !== undefined) settle(outcome)
        } catch (error) {
          if (!(error instanceof ApiFault) || error.status !== 409) throw error
          if (error.code === 'item_changed') setChanged(true)
          const { decision, by, actor } = error.body
          if (decision === 'approved' || decision === 'denied')
            return settle({ what: decision, by: typeof by === 'string' ? by : '', actor })
          onChanged()
          if (error.code !== 'item_changed') throw error
        } finally {
          takeFocus(card, isSettled)
        }
      })
    },
    [run, onSettled, onChanged, setChanged],
  )
  return { busy, fault, deed }
}

/**
 * Whether the item is another one than the card showed before. Then she looks again before she can approve:
 * what she is about to press was meant for what stood there a moment ago.
 */
function useChanged(item: DecisionItem): { hasChanged: boolean; setChanged: (hasChanged: boolean) => void } {
  const [hasChanged, setChanged] = useState(false)
  const [shown, setShown] = useState(item)
  // During rendering, so that the new item never stands beside the button for the former one.
  if (shown !== item) {
    setShown(item)
    if (canonicalize(shown) !== canonicalize(item)) setChanged(true)
  }
  return { hasChanged, setChanged }
}

/** Whether she approves less than it asks for: for its tier alone, or this call alone. */
function Only(props: { item: DecisionItem; isOnly: boolean; onChange: (isOnly: boolean) => void }) {
  const { item, isOnly, onChange } = props
  const isCall = item.kind === 'operation'
  const hint = isCall ? A.onlyCallHint : W.onlyHint
  return (
    <CheckBox look="only" name="only" isChecked={isOnly} onCheck={onChange}>
      {isCall ? A.onlyCall : W.only}
      <span class="note">
        <Shown text={hint(item.tier)} />
      </span>
    </CheckBox>
  )
}

function GraveApproval(props: { item: DecisionItem; busy: boolean; onApprove: () => void }) {
  const { item, busy, onApprove } = props
  const [isTyping, setTyping] = useState(false)
  const [typed, setTyped] = useState('')
  const field = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => {
    if (isTyping) field.current?.focus()
  }, [isTyping])
  const word = wordOf(item)
  const leave = (): void => keepingFocus(() => setTyping(false))
  if (!isTyping)
    return (
      <>
        <HoldButton label={busy ? W.approving : W.hold} busy={busy} onConfirm={onApprove} />
        <button type="button" class="link" data-key="a" onClick={() => setTyping(true)}>
          {W.orType}
        </button>
      </>
    )
  return (
    <Form
      class="type-form"
      onSubmit={() => {
        if (typed.trim() === word) onApprove()
      }}
      onKeyDown={event => {
        if (event.key === 'Escape') leave()
      }}
    >
      <TextField
        label={W.typeName(word)}
        isExact
        field={field}
        name="typed"
        class="mono"
        value={typed}
        onValue={setTyped}
      />
      <FormEnd disabled={busy || typed.trim() !== word} onCancel={leave}>
        {busy ? W.approving : W.approve}
      </FormEnd>
    </Form>
  )
}

/** The tool's name, if it can be typed. */
function wordOf({ operation }: DecisionItem): string {
  return operation !== undefined && /^[\w.-]{1,40}$/.test(operation.tool) ? operation.tool : 'approve'
}
