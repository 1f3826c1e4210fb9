/**
 * Pieces that pages have in common: headings, notices, questions before an act. Contract: "Owner API".
 */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useFocusHandover } from './focus.ts'
import { Shown } from './shown.tsx'
import { WORDS } from '../words.ts'

/** The beginning of a page. `status` changes while she looks, which a screen reader then says. */
export function PageHead({
  title,
  lead,
  status,
  children,
}: {
  title: string
  lead?: string
  status?: string | undefined
  children?: ComponentChildren
}) {
  return (
    <header class="page-head">
      <div>
        <h1 tabIndex={-1}>{title}</h1>
        {lead === undefined ? null : <p class="lead">{lead}</p>}
        <div role="status">{status === undefined ? null : <p class="lead">{status}</p>}</div>
      </div>
      {children}
    </header>
  )
}

/** The text for an empty list. */
export function Nothing({ title, hint }: { title: string; hint?: string }) {
  return (
    <div class="nothing">
      <svg viewBox="0 0 48 48" width="48" height="48" aria-hidden="true">
        <circle cx="24" cy="24" r="20" />
        <path d="m16 24.5 5.5 5.5L32 19" />
      </svg>
      <p class="nothing-title">{title}</p>
      {hint === undefined ? null : <p>{hint}</p>}
    </div>
  )
}

/**
 * Something went wrong, in the words of the server or page that reported it: a server may name in it what
 * others wrote.
 */
export function Fault({ text, retry }: { text: string | undefined; retry?: () => void }) {
  if (text === undefined) return null
  return (
    <div class="notice bad" role="alert">
      <p>
        <Shown text={text} />
      </p>
      {retry === undefined ? null : (
        <button type="button" class="plain" onClick={retry}>
          {WORDS.retry}
        </button>
      )}
    </div>
  )
}

/** A list that is not there yet, or that cannot be read. */
export function Awaited({
  data,
  fault,
  reload,
}: {
  data: unknown
  fault: string | undefined
  reload: () => void
}) {
  if (fault !== undefined) return <Fault text={fault} retry={reload} />
  return data === undefined ? (
    <p class="quiet" role="status">
      {WORDS.loading}
    </p>
  ) : null
}

/**
 * A button that first says what it is about to do, and does it on the second press. The focus comes back to
 * the button from the question, whatever she answers.
 */
export function Asking(props: {
  label: string
  /** What the label alone does not say, for people who use a screen reader. */
  about?: string
  asks: string
  confirm: string
  busy?: boolean
  kind?: string
  onConfirm: () => void
}) {
  const { label, about, asks, confirm, busy = false, kind = 'plain', onConfirm } = props
  const [isOpen, setOpen] = useState(false)
  const opener = useRef<HTMLButtonElement>(null)
  const question = useRef<HTMLDivElement>(null)
  const first = useRef<HTMLButtonElement>(null)
  const wasOpen = useRef(false)
  useLayoutEffect(() => {
    if (isOpen) first.current?.focus()
    else if (wasOpen.current) opener.current?.focus()
    wasOpen.current = isOpen
  }, [isOpen])
  useFocusHandover(() => question.current ?? opener.current)
  if (!isOpen)
    return (
      <button
        ref={opener}
        type="button"
        class={kind}
        aria-label={about === undefined ? undefined : `${label}: ${about}`}
        onClick={() => setOpen(true)}
      >
        {label}
      </button>
    )
  return (
    <div
      ref={question}
      class="asking"
      role="group"
      aria-label={label}
      onKeyDown={event => {
        if (event.key === 'Escape') setOpen(false)
      }}
    >
      <p>
        <Shown text={asks} />
      </p>
      <div class="row">
        <button
          type="button"
          class="danger"
          disabled={busy}
          onClick={() => {
            setOpen(false)
            onConfirm()
          }}
        >
          {confirm}
        </button>
        <button ref={first} type="button" class="plain" onClick={() => setOpen(false)}>
          {WORDS.waiting.cancel}
        </button>
      </div>
    </div>
  )
}

/** A text to carry to another device. */
export function Copyable({ label, text }: { label: string; text: string }) {
  const [isCopied, setCopied] = useState(false)
  return (
    <div class="copyable">
      <span class="label">{label}</span>
      <div class="row nowrap">
        <code class="mono">{text}</code>
        <button
          type="button"
          class="plain"
          onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
        >
          {isCopied ? WORDS.signIn.copied : WORDS.signIn.copy}
        </button>
      </div>
    </div>
  )
}

/** Names in a row, each as somebody wrote it. */
export function Chips({ texts, none }: { texts: readonly string[]; none?: string }) {
  if (texts.length === 0) return <span class="quiet">{none ?? WORDS.empty}</span>
  return (
    <ul class="chips">
      {texts.map(text => (
        <li key={text}>
          <Shown text={text} />
        </li>
      ))}
    </ul>
  )
}
