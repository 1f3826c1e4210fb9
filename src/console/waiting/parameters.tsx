/**
 * Owns the parameters of a call as she sees them: complete and canonical, amounts and recipients first, and
 * each next to its value in the last such call that she approved. Contract: "RPT claims" (`params_s256` is
 * over this very form).
 */
import { canonicalize, isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import type { EarlierCall } from './whole.ts'

const W = WORDS.waiting

/**
 * Words in the names of amounts and recipients. They decide only the order, never whether a parameter is
 * shown.
 */
const FIRST =
  /amount|price|total|sum|qty|quantity|value|limit|fee|currency|recipient|payee|beneficiary|iban|account|(^|_)to($|_)|destination|address|symbol/i

/** `earlier` is null if there is none, and undefined while that is not known. */
export function Parameters({ params, earlier }: { params: Json; earlier: EarlierCall | null | undefined }) {
  const whole = canonicalize(params)
  if (!isJsonObject(params)) return <Shown text={whole} mono label={W.parameters} />
  const names = [...new Set([...Object.keys(params), ...Object.keys(earlier?.params ?? {})])].sort()
  const ordered = [...names.filter(name => FIRST.test(name)), ...names.filter(name => !FIRST.test(name))]
  return (
    <>
      {names.length === 0 ? (
        <span class="quiet">{W.noParameters}</span>
      ) : (
        <dl class="parameters">
          {ordered.map(name => (
            <Parameter key={name} name={name} params={params} earlier={earlier?.params} />
          ))}
        </dl>
      )}
      <Compared params={params} earlier={earlier} />
      {names.length === 0 ? null : (
        <details>
          <summary>{W.exact}</summary>
          <p>
            <Shown text={whole} mono label={W.exact} />
          </p>
        </details>
      )}
    </>
  )
}

function Parameter(props: { name: string; params: JsonObject; earlier: JsonObject | undefined }) {
  const { name, params, earlier } = props
  const [is, was] = [textOf(params, name), earlier && textOf(earlier, name)]
  const isDifferent = earlier !== undefined && is !== was
  return (
    <div class={FIRST.test(name) ? 'first' : ''} data-difference={isDifferent ? '' : undefined}>
      <dt>
        <Shown text={name} isName mono />
      </dt>
      <dd>
        {is === undefined ? <span class="quiet">{W.leftOut}</span> : <Shown text={is} mono label={name} />}
        {isDifferent ? (
          <span class="was">
            {was === undefined ? (
              W.isNew
            ) : (
              <>
                {W.was} <Shown text={was} mono label={`${W.was} ${name}`} />
              </>
            )}
          </span>
        ) : null}
      </dd>
    </div>
  )
}

/** How this call compares with the last one that she approved. */
function Compared({ params, earlier }: { params: JsonObject; earlier: EarlierCall | null | undefined }) {
  if (earlier === undefined) return null
  if (earlier === null) return <p class="note compared">{W.firstCall}</p>
  const isSame = canonicalize(params) === canonicalize(earlier.params)
  const time = whenText(earlier.at)
  return (
    <p class={`note compared ${isSame ? 'good' : 'warn'}`}>{isSame ? W.sameCall(time) : W.otherCall(time)}</p>
  )
}

function textOf(params: JsonObject, name: string): string | undefined {
  return Object.hasOwn(params, name) ? canonicalize(params[name]!) : undefined
}
