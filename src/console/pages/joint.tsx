/**
 * What she holds with others: reading a mandate, agreeing to exactly that, the calls there, and leaving.
 * Contract: "Tally for a jointly held resource" (on each holder's authorization server).
 */
import { useState } from 'preact/hooks'
import type { JointShare, JointPreview, StillWaiting } from '../../wire/owner/owner-api.ts'
import { ApiFault, ask, type Access } from '../access/api.ts'
import { MandatePreview, NameForm, readMandate, type AccountReference } from '../joint/agreeing.tsx'
import { Calls } from '../joint/calls.tsx'
import { Mandate } from '../joint/mandate.tsx'
import { Asking, Awaited, Fault, Nothing, PageHead } from '../parts/parts.tsx'
import { useDeed, useLoaded, useSession } from '../access/session.ts'
import { Field, Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'

const W = WORDS.joint

/** Undefined if the authority works with no tally, because it then serves nothing there. */
async function load(access: Access): Promise<{ accounts: JointShare[] | undefined }> {
  try {
    return await ask<{ accounts: JointShare[] }>(access, { path: 'owner/joint' })
  } catch (error) {
    if (error instanceof ApiFault && error.status === 404) return { accounts: undefined }
    throw error
  }
}

export function JointPage() {
  const { access } = useSession()
  const { data, fault, reload } = useLoaded(load, /^(joint|reset)/)
  const { busy, fault: failed, run } = useDeed()
  const [read, setRead] = useState<{ preview: JointPreview; isMoved: boolean }>()
  const [notice, setNotice] = useState<string>()
  const look = (named: AccountReference): void =>
    run(async () => {
      setNotice(undefined)
      // What she reads now is shown by a form of its own, without the fault of another one.
      setRead(undefined)
      setRead({ preview: await readMandate(access, named), isMoved: false })
    })
  if (data !== undefined && data.accounts === undefined)
    return (
      <>
        <PageHead title={W.title} lead={W.lead} />
        <Nothing title={W.none} hint={W.noneListed} />
      </>
    )
  return (
    <>
      <PageHead title={W.title} lead={W.lead} />
      <Awaited data={data} fault={fault} reload={reload} />
      <div role="status">{notice === undefined ? null : <p class="notice good">{notice}</p>}</div>
      <Fault text={failed} />
      {read === undefined ? null : (
        <MandatePreview
          {...read}
          onMoved={preview => setRead({ preview, isMoved: true })}
          onCancel={() => setRead(undefined)}
          onAgreed={() => {
            setNotice(W.held(read.preview.mandate.account))
            setRead(undefined)
            reload()
          }}
        />
      )}
      <ul class="list">
        {data?.accounts?.map(one => (
          <Account
            key={one.account}
            joint={one}
            isBusy={busy}
            onRead={() => look({ account: one.account, tally: one.tally })}
            onLeft={text => {
              setNotice(text)
              reload()
            }}
          />
        ))}
      </ul>
      {data === undefined || read !== undefined ? null : <NameForm busy={busy} onRead={look} />}
    </>
  )
}

interface AccountProps {
  joint: JointShare
  isBusy: boolean
  onRead: () => void
  onLeft: (notice: string) => void
}

function Account({ joint, isBusy, onRead, onLeft }: AccountProps) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const { account, tally, rule, holders, resources, since, state, mandate_s256 } = joint
  const leave = async (): Promise<void> => {
    const { joint_withdrawals_waiting: waiting } = await ask<StillWaiting>(access, {
      method: 'DELETE',
      path: `owner/joint/${encodeURIComponent(account)}`,
    })
    onLeft(waiting === undefined ? W.left(account) : `${W.left(account)} ${W.stillCounts(waiting)}`)
  }
  return (
    <li class="item" data-account={account}>
      <div class="item-head">
        <h2>
          <Shown text={account} isName />
        </h2>
        <span class={`tag ${state === 'agreed' ? 'good' : 'warn'}`}>
          {state === 'agreed' ? W.agreed : W.changed}
        </span>
      </div>
      {state === 'agreed' ? null : (
        <div class="notice warn" role="alert">
          <p>{W.changedHint}</p>
          <button type="button" class="plain" disabled={isBusy} onClick={onRead}>
            {W.readNew}
          </button>
        </div>
      )}
      <dl class="fields">
        <Mandate {...{ rule, holders, resources }} total={rule.total_weight} />
        <Field name={W.tally}>
          <Shown text={tally} isName mono />
        </Field>
        <Field name={W.since}>{whenText(since)}</Field>
        <Field name={W.digest}>
          <Shown text={mandate_s256} isName mono />
        </Field>
      </dl>
      <Calls account={account} />
      <Fault text={fault} />
      <div class="row">
        <Asking
          kind="plain deny"
          label={W.leave}
          asks={W.leaveAsk}
          confirm={W.leaveNow}
          busy={busy}
          onConfirm={() => run(leave)}
        />
      </div>
    </li>
  )
}
