/**
 * The receipts of one negotiation: what they say, and whether they hold, checked in this browser. Contract:
 * "Grant answer (beat 4)": both sides hold the receipt.
 */
import { useEffect, useRef, useState } from 'preact/hooks'
import { canonicalize, parseJson, type Json } from '../../wire/json.ts'
import type { ReceiptRecord } from '../../wire/owner/owner-api.ts'
import { ask, type Access } from '../access/api.ts'
import { textOfBase64url } from '../bytes.ts'
import { Awaited } from '../parts/parts.tsx'
import { checkReceipt, keysFor, type ReceiptCheck } from '../receipt.ts'
import { useLoaded, useSession, wordsOf } from '../access/session.ts'
import { Field, Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { saveAs } from './save.ts'

const W = WORDS.ledger

export function Receipts({ family, onClose }: { family: string; onClose: () => void }) {
  const path = `owner/receipts?family=${encodeURIComponent(family)}`
  const { data, fault, reload } = useLoaded(
    access => ask<{ receipts: ReceiptRecord[] }>(access, { path }),
    /^reset$/,
  )
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog ref={dialog} aria-label={W.receipts} onClose={onClose}>
      <div class="item-head">
        <h2>{W.receipts}</h2>
        <button type="button" class="plain" onClick={() => dialog.current?.close()}>
          {W.close}
        </button>
      </div>
      <Awaited data={data} fault={fault} reload={reload} />
      {data?.receipts.length === 0 ? <p>{W.noReceipt}</p> : null}
      {data?.receipts.map(record => (
        <Receipt key={record.seq} record={record} />
      ))}
      {data === undefined || data.receipts.length === 0 ? null : <p class="note">{W.saveHint}</p>}
    </dialog>
  )
}

/** The members that are shown first. */
const PLAIN = ['sub', 'resource_id', 'template_id', 'rpt'] as const

function textIn(members: readonly [string, Json][], memberName: string): string {
  const value = members.find(([name]) => name === memberName)?.[1]
  return typeof value === 'string' ? value : ''
}

function Receipt({ record }: { record: ReceiptRecord }) {
  const { seq, issued_at, receipt } = record
  const members = membersOf(receipt)
  return (
    <section class="facts receipt">
      <h3>{whenText(issued_at)}</h3>
      <Checked record={record} />
      <dl class="fields">
        {PLAIN.map(name => (
          <Field key={name} name={W.members[name]}>
            <Shown text={textIn(members, name)} isName mono />
          </Field>
        ))}
      </dl>
      <details>
        <summary>{W.whole}</summary>
        <dl class="parameters">
          {members.map(([name, value]) => (
            <div key={name}>
              <dt>
                <Shown text={name} isName mono />
              </dt>
              <dd>
                <Shown text={typeof value === 'string' ? value : canonicalize(value)} mono label={name} />
              </dd>
            </div>
          ))}
        </dl>
      </details>
      <button
        type="button"
        class="plain"
        onClick={() => saveAs(`receipt-${seq}.jws`, receipt, 'application/jose')}
      >
        {W.save}
      </button>
    </section>
  )
}

/**
 * Whether it holds, in words. If it cannot be checked now, that is said, and not reported as a fault of the
 * receipt.
 */
function Checked({ record }: { record: ReceiptRecord }) {
  const { access } = useSession()
  const [verdict, setVerdict] = useState<ReceiptCheck | string>()
  useEffect(() => {
    let isCurrent = true
    const check = async (): Promise<void> => {
      const found = await verdictOn(access, record)
      if (isCurrent) setVerdict(found)
    }
    void check()
    return () => {
      isCurrent = false
    }
  }, [access, record])
  if (verdict === undefined) return <p role="status">{W.checking}</p>
  if (typeof verdict === 'string')
    return (
      <p class="notice warn" role="status">
        {W.unchecked} {verdict}
      </p>
    )
  if (!verdict.holds)
    return (
      <p class="notice bad" role="alert">
        {W.doesNotHold} {W.faults[verdict.fault]}
      </p>
    )
  const { decision, kid } = verdict
  return (
    <div class="notice good" role="status">
      <p>
        <strong>{W.holds}</strong> {W.holdsBy(kid)}{' '}
        {typeof decision === 'string' ? W.decided[decision] : <Shown text={W.decidedBy(decision.name)} />}
      </p>
    </div>
  )
}

async function verdictOn(access: Access, record: ReceiptRecord): Promise<ReceiptCheck | string> {
  try {
    return await checkReceipt(record, await keysFor(access), access.issuer)
  } catch (error) {
    return wordsOf(error)
  }
}

/** What the receipt says. */
function membersOf(receipt: string): [string, Json][] {
  const text = textOfBase64url(receipt.split('.')[1] ?? '')
  const payload = text === undefined ? undefined : parseJson(text)
  return typeof payload === 'object' && payload !== null && !Array.isArray(payload)
    ? Object.entries(payload)
    : [['receipt', receipt]]
}
