/**
 * Owns how the page shows text that others wrote: as writing.ts gives it, with its flags next to it.
 * Contract: "Owner API". Preact makes text nodes of text, so markup in it stays text.
 */
import type { ComponentChildren } from 'preact'
import { WORDS } from '../words.ts'
import { analyse } from './writing.ts'

/** Foreign text, within a sentence or a field. */
export function Shown(props: { text: string; isName?: boolean; mono?: boolean; label?: string }) {
  const { text, isName = false, mono = false, label } = props
  const { parts, flags } = analyse(text, isName)
  const written = parts.map((part, place) =>
    part.isEscaped ? (
      <span key={place} class="escaped">
        {part.text}
      </span>
    ) : (
      part.text
    ),
  )
  const marks = flags.map(flag => (
    <span key={flag} class="flag" data-flag={flag}>
      {flag === 'long' ? WORDS.flags.long(text.length) : WORDS.flags[flag]}
    </span>
  ))
  const classes = `shown${mono ? ' mono' : ''}`
  if (text === '') return <span class="quiet">{WORDS.empty}</span>
  if (flags.includes('long'))
    return (
      <>
        {marks}
        <div class={`${classes} long`} tabIndex={0} role="group" aria-label={label ?? WORDS.longText}>
          <bdi>{written}</bdi>
        </div>
      </>
    )
  return (
    <>
      <bdi class={classes}>{written}</bdi>
      {marks}
    </>
  )
}

/** The same for places without elements, for example an option of a list. */
export function shownText(text: string): string {
  const { parts } = analyse(text, false)
  return parts.map(part => part.text).join('')
}

/** A name, which others may have given, and the text under it. */
export function Field({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <dt>
        <Shown text={name} />
      </dt>
      <dd>{children}</dd>
    </div>
  )
}

/** A text as a sentence of its own. */
export function sentenceOf(text: string): string {
  return text === '' ? '' : `${text[0]!.toUpperCase()}${text.slice(1)}.`
}
