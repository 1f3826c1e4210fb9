/**
 * A button that acts only after it was held: with a finger, a mouse, or the space bar. Contract: "Owner API".
 */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { WORDS } from '../words.ts'

const PRESS_MS = 1_200

export function HoldButton({
  label,
  busy,
  onConfirm,
}: {
  label: string
  busy: boolean
  onConfirm: () => void
}) {
  const [isPressed, setPressed] = useState(false)
  const timer = useRef<ReturnType<typeof setTimeout>>()
  const release = useCallback((): void => {
    clearTimeout(timer.current)
    timer.current = undefined
    setPressed(false)
  }, [])
  useEffect(() => release, [release])
  const hold = (): void => {
    if (busy || timer.current !== undefined) return
    setPressed(true)
    timer.current = setTimeout(() => {
      release()
      onConfirm()
    }, PRESS_MS)
  }
  const isHoldKey = ({ key }: KeyboardEvent): boolean => key === ' ' || key === 'Enter'
  return (
    <button
      type="button"
      class={`primary grave${isPressed ? ' holding' : ''}`}
      disabled={busy}
      onPointerDown={event => {
        if (event.button === 0) hold()
      }}
      onPointerUp={release}
      onPointerLeave={release}
      onPointerCancel={release}
      onContextMenu={event => event.preventDefault()}
      onKeyDown={event => {
        if (!isHoldKey(event)) return
        event.preventDefault()
        if (!event.repeat) hold()
      }}
      onKeyUp={event => {
        if (isHoldKey(event)) release()
      }}
      onBlur={release}
    >
      <span class="fill" aria-hidden="true" />
      <span class="over">{isPressed ? WORDS.waiting.holding : label}</span>
    </button>
  )
}
