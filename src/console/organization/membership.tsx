/**
 * Her membership: what it may, what its ceiling cuts, a later version that waits for her, and the way out.
 * Contract: "Organization membership, on the member's authorization server".
 */
import { useLayoutEffect, useRef } from 'preact/hooks'
import { secondsText } from '../../rules/words/rule-words.ts'
import { canonicalize, type Json } from '../../wire/json.ts'
import { ApiFault, ask } from '../access/api.ts'
import { AgreementBox, useAgreement } from '../parts/agreement-box.tsx'
import { pageHeading, takeLostFocus } from '../parts/focus.ts'
import { Form } from '../parts/form.tsx'
import { Asking, Chips, Fault } from '../parts/parts.tsx'
import { useDeed, useSession } from '../access/session.ts'
import { Field, Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { Commitment, Governed, Part, Sentences, type MemberStanding } from './commitment.tsx'

const W = WORDS.organization

interface Props {
  standing: MemberStanding
  onChanged: () => void
}

export function Membership({ standing, onChanged, onLeft }: Props & { onLeft: () => void }) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const { name, charter_name, agreed_version, joined, last_read, role_name, stale } = standing
  const leave = async (): Promise<void> => {
    await ask(access, { method: 'DELETE', path: 'owner/organization' })
    onLeft()
  }
  return (
    <>
      <Waiting {...{ standing, onChanged }} />
      <article class="panel preview">
        <div class="item-head">
          <h2>
            <Shown text={name} />
          </h2>
          <span class="tag good">{W.member}</span>
        </div>
        <p class="quiet">
          <Shown text={W.version(charter_name, agreed_version)} />
        </p>
        {stale ? (
          <p class="notice warn" role="alert">
            {W.stale}
          </p>
        ) : null}
        <dl class="pairs">
          <Field name={W.since}>{whenText(joined)}</Field>
          <Field name={W.lastRead}>{whenText(last_read)}</Field>
          <Field name={W.role}>{role_name === null ? W.roleNone : <Shown text={role_name} />}</Field>
          <Field name={W.issuer}>
            <Shown text={standing.issuer} isName mono />
          </Field>
        </dl>
        <Part title={W.shared}>
          <Chips texts={standing.grants} none={W.nothing} />
        </Part>
        <Governed resources={standing.governed_resources} conflicts={standing.conflicts} />
        <Ceiling standing={standing} />
        <Administrators {...{ standing, onChanged }} />
        <Commitment view={standing} />
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
      </article>
    </>
  )
}

/** A later version that enlarges what she agreed to; she agrees to it in a separate step. */
function Waiting({ standing, onChanged }: Props) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const { waiting, charter_name, charter_version, binds_s256 } = standing
  // A still later version may come while she reads this one.
  const { isAgreed, isMoved, setAgreed } = useAgreement(`${charter_version} ${binds_s256}`)
  const hasActed = useRef(false)
  const nothingWaits = waiting === null
  // The button was disabled when it was pressed, and had the focus no more when the form went away.
  useLayoutEffect(() => {
    if (!nothingWaits || !hasActed.current) return
    hasActed.current = false
    takeLostFocus(pageHeading())
  }, [nothingWaits])
  if (waiting === null) return null
  const agree = async (): Promise<void> => {
    const body = { agreed: true, charter_version, binds_s256 }
    hasActed.current = true
    try {
      await ask(access, { method: 'POST', path: 'owner/organization', body })
      setAgreed(false)
    } catch (error) {
      // The form says so itself, as soon as it shows what waits now.
      if (!(error instanceof ApiFault) || error.body['reason'] !== 'charter_moved') throw error
    } finally {
      // Whatever came of it, she is shown what waits now.
      onChanged()
    }
  }
  return (
    <Form class="panel invited" onSubmit={() => run(agree)}>
      <h2>{W.waiting}</h2>
      {isMoved ? (
        <p class="notice warn" role="alert">
          {W.moved}
        </p>
      ) : null}
      <p class="quiet">{W.waitingHint}</p>
      <Sentences texts={waiting.changes} />
      <AgreementBox text={W.agree(charter_name, waiting.version)} isAgreed={isAgreed} onChange={setAgreed} />
      <Fault text={fault} />
      <button type="submit" class="primary" disabled={busy || !isAgreed}>
        {W.agreeAgain}
      </button>
    </Form>
  )
}

function Ceiling({ standing: { tiers, require_clearance } }: { standing: MemberStanding }) {
  const required = Object.entries(require_clearance)
  return (
    <>
      <Part title={W.ceiling} hint={W.ceilingHint}>
        {Object.entries(tiers).map(([tier, fields]) => (
          <dl key={tier} class="parameters ceiling">
            <div class="first">
              <dt>
                <Shown text={tier} isName />
              </dt>
              <dd>
                <span>{W.yours}</span>
                <span>{W.most}</span>
              </dd>
            </div>
            {fields.map(({ field, yours, ceiling }) => (
              <div key={field}>
                <dt>{Object.hasOwn(W.fields, field) ? W.fields[field] : field}</dt>
                <dd>
                  <span>
                    <Shown text={valueText(field, yours)} />
                  </span>
                  <span>
                    <Shown text={valueText(field, ceiling)} />
                  </span>
                </dd>
              </div>
            ))}
          </dl>
        ))}
        {Object.keys(tiers).length === 0 ? <p>{W.governedNone}</p> : null}
      </Part>
      <Part title={W.clearance}>
        {required.length === 0 ? <p class="quiet">{W.clearanceNone}</p> : null}
        <dl>
          {required.map(([fact, values]) => (
            <Field key={fact} name={fact}>
              <Chips texts={values} none={W.nothing} />
            </Field>
          ))}
        </dl>
      </Part>
    </>
  )
}

function valueText(field: string, value: unknown): string {
  if (field === 'expires_in' && typeof value === 'number') return secondsText(value)
  if (typeof value === 'boolean') return value ? W.yes : W.no
  if (Array.isArray(value)) return value.length === 0 ? W.nothing : value.join(', ')
  if (value === null || value === undefined) return W.nothing
  return typeof value === 'string' ? value : canonicalize(value as Json)
}

/** Powers can be taken away one by one, but not added. */
function Administrators({ standing: { administrators_may }, onChanged }: Props) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const takeAway = (power: string): void =>
    run(async () => {
      const left = administrators_may.filter(one => one !== power)
      await ask(access, { method: 'PUT', path: 'owner/organization', body: { administrators_may: left } })
      onChanged()
    })
  const nameOf = (power: string): string => (Object.hasOwn(W.powers, power) ? W.powers[power]! : power)
  return (
    <Part title={W.administrators}>
      {administrators_may.length === 0 ? <p>{W.powersNone}</p> : null}
      <ul class="takes">
        {administrators_may.map(power => (
          <li key={power} class="row">
            <span>{nameOf(power)}</span>
            <Asking
              kind="link"
              label={W.takeAway}
              about={nameOf(power)}
              asks={W.takeAwayAsk(nameOf(power))}
              confirm={W.takeAwayNow}
              busy={busy}
              onConfirm={() => takeAway(power)}
            />
          </li>
        ))}
      </ul>
      <Fault text={fault} />
    </Part>
  )
}
