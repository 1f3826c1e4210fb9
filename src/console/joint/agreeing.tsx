/**
 * How she becomes a holder of a joint account: she reads the mandate first, and agrees to exactly that.
 * Contract: "Tally for a jointly held resource" (on each holder's authorization server).
 */
import { useState } from 'preact/hooks'
import { secondsText } from '../../rules/words/rule-words.ts'
import type { JointPreview } from '../../wire/owner/owner-api.ts'
import { AgreementForm } from '../parts/agreement-form.tsx'
import { ApiFault, ask, type Access } from '../access/api.ts'
import { Sentences } from '../organization/commitment.tsx'
import { useSession } from '../access/session.ts'
import { Form } from '../parts/form.tsx'
import { Field, Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import { Mandate } from './mandate.tsx'
import { TextField } from '../parts/text-field.tsx'

const W = WORDS.joint

/** The account, and the tally that counts for it. */
export interface AccountReference {
  account: string
  tally: string
}

export function readMandate(access: Access, named: AccountReference): Promise<JointPreview> {
  return ask<JointPreview>(access, { method: 'POST', path: 'owner/joint/preview', body: named })
}

export function NameForm({ busy, onRead }: { busy: boolean; onRead: (named: AccountReference) => void }) {
  const [account, setAccount] = useState('')
  const [tally, setTally] = useState('')
  return (
    <Form class="panel" onSubmit={() => onRead({ account: account.trim(), tally: tally.trim() })}>
      <h2>{W.add}</h2>
      <p class="quiet">{W.addHint}</p>
      <TextField
        label={`${W.account}: ${W.accountHint}`}
        isExact
        name="account"
        required
        value={account}
        onValue={setAccount}
      />
      <TextField
        label={`${W.tallyField}: ${W.tallyHint}`}
        isExact
        name="tally"
        class="mono"
        inputMode="url"
        required
        value={tally}
        onValue={setTally}
      />
      <button type="submit" class="primary" disabled={busy}>
        {busy ? W.reading : W.read}
      </button>
    </Form>
  )
}

interface JointPreviewProps {
  preview: JointPreview
  isMoved: boolean
  onMoved: (preview: JointPreview) => void
  onCancel: () => void
  onAgreed: () => void
}

export function MandatePreview({ preview, isMoved, onMoved, onCancel, onAgreed }: JointPreviewProps) {
  const { access } = useSession()
  const { mandate, mandate_s256, summary } = preview
  const { account, tally, rule, holders, resources, total_weight } = mandate
  const agree = async (): Promise<void> => {
    const body = { account, tally, agreed: true, mandate_s256 }
    try {
      await ask(access, { method: 'POST', path: 'owner/joint', body })
    } catch (error) {
      if (!(error instanceof ApiFault) || error.body['reason'] !== 'mandate_moved') throw error
      return onMoved(await readMandate(access, { account, tally }))
    }
    onAgreed()
  }
  const words = { ...W, agreed: W.agree(account), act: W.hold, acting: W.holding }
  const title = (
    <h2>
      <Shown text={account} isName />
    </h2>
  )
  return (
    <AgreementForm {...{ title, isMoved, words, onCancel }} about={mandate_s256} onAgree={agree}>
      <section class="facts">
        <h3>{W.means}</h3>
        <Sentences texts={summary} />
      </section>
      <dl class="fields">
        <Mandate {...{ rule, holders, resources }} total={total_weight} />
        <Field name={W.tally}>
          <Shown text={tally} isName mono />
        </Field>
        <Field name={W.digest}>
          <Shown text={mandate_s256} isName mono />
        </Field>
      </dl>
      <Terms terms={preview.my_terms} />
    </AgreementForm>
  )
}

/** A tally counts a holder without terms as refusing. */
function Terms({ terms }: { terms: JointPreview['my_terms'] }) {
  return (
    <section class="facts">
      <h3>{W.terms}</h3>
      {terms.length === 0 ? (
        <p class="notice warn">{W.termsNone}</p>
      ) : (
        <>
          <p class="note">{W.termsHint}</p>
          <dl>
            {terms.map(({ tier, resources, terms: { scope, expires_in, prohibited } }) => (
              <Field key={tier} name={`${tier}: ${resources.join(', ')}`}>
                <Shown text={W.within(scope.join(', '), secondsText(expires_in))} />
                {prohibited.length === 0 ? null : (
                  <span class="note">
                    <Shown text={W.not(prohibited.join(', '))} />
                  </span>
                )}
              </Field>
            ))}
          </dl>
        </>
      )}
    </section>
  )
}
